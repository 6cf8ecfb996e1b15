from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.svg import STYLE, box, document, escaped
from toolorchestra.toolscale.common.visible import cut


def test_a_document_is_xml_of_its_size_whatever_the_texts_are() -> None:
    hint = '<b> & \x00 \ud800 "quoted"'
    boxes = [box((10, 20), (200, 60), ("#fff", "#000"), hint, [f"<text>{escaped(hint, 9)}</text>"])]
    text = document(400, 300, [f"<style>{STYLE}</style>"], boxes)
    root = ElementTree.fromstring(text)
    assert root.attrib == {"width": "400", "height": "300", "viewBox": "0 0 400 300"}
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [r'<b> & \u0000 \ud800 "quoted"']
    assert text.endswith("</svg>\n")


def test_a_line_is_cut_to_its_length_and_the_rest_is_left() -> None:
    assert cut("one\n two", 7) == "one two"
    assert cut("one\n two", 6) == "one t…"
    assert escaped("a < b", 3) == "a …"
    assert escaped("a < b") == "a &lt; b"
