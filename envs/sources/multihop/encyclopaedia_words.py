"""The words of the synthetic encyclopaedia: what names are made of, and the sentences that state facts.

A sentence has the relations that it states as its slots. ``{S}`` and ``{s}`` are its subject, at the beginning and
within: the mention in an article's first sentence, a pronoun later. No name or sentence has a full stop inside, and
no name a comma or "and", so that a reader who knows the sentences can read an article's facts from its text.
"""

from __future__ import annotations

GIVEN = {
    "she": (
        "Ada", "Alda", "Berit", "Cora", "Dagny", "Edda", "Elin", "Fenna", "Greta", "Hanne", "Ida", "Ilse", "Jorun",
        "Katla", "Lene", "Liv", "Mara", "Marta", "Nadia", "Nora", "Oda", "Petra", "Ragna", "Rosa", "Selma", "Signe",
        "Tilda", "Ulla", "Vera", "Wilma", "Ylva", "Zora", "Maren", "Solveig", "Tora", "Inger", "Astri", "Runa",
    ),
    "he": (
        "Alf", "Anton", "Aron", "Bruno", "Caspar", "Dirk", "Edvin", "Emil", "Felix", "Gunnar", "Halvor", "Hugo", "Ivar",
        "Jakob", "Joost", "Karel", "Klaus", "Lars", "Leif", "Magnus", "Milan", "Nils", "Olaf", "Oskar", "Pavel", "Rolf",
        "Ruben", "Sander", "Stefan", "Teo", "Tobias", "Ulrik", "Viktor", "Willem", "Yngve", "Arvid", "Birger", "Egil",
    ),
}  # fmt: skip
ONSETS = ("b", "br", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "th", "tr", "v", "w", "")
VOWELS = ("a", "e", "i", "o", "u", "a", "e", "o", "ei", "au")
MIDDLES = ("l", "ld", "n", "nd", "r", "rn", "m", "s", "sk", "v", "d", "t", "g", "rr", "ll", "k", "lm", "rv", "nt")
CODAS = ("n", "l", "r", "s", "d", "k", "m", "", "", "", "", "")
CITY_ENDINGS = ("holm", "ford", "wick", "burg", "mouth", "stead", "haven", "by", "ton", "minster", "", "")
COUNTRY_ENDINGS = ("ia", "land", "mark", "avia", "onia", "ara")
LANGUAGE_ENDINGS = ("ish", "ic", "ese", "ian")
FAMILY_ENDINGS = ("", "en", "er", "sen", "man", "ov", "ell", "et", "ius", "ing")
COINS = ("florin", "crown", "thaler", "mark", "ducat", "talent", "penny", "guilder")

ADJECTIVES = (
    "Amber", "Ashen", "Bitter", "Blind", "Borrowed", "Brass", "Bright", "Broken", "Burning", "Cold", "Copper",
    "Distant", "Divided", "Drowned", "Early", "Empty", "Endless", "Fallen", "Faithful", "Foreign", "Forgotten",
    "Frozen", "Gentle",
    "Gilded", "Glass", "Green", "Grey", "Hidden", "Hollow", "Idle", "Iron", "Ivory", "Kind", "Last", "Late", "Little",
    "Lonely", "Long", "Lost", "Marble", "Narrow", "Northern", "Open", "Painted", "Pale", "Paper", "Patient", "Plain",
    "Quiet", "Restless", "Salt", "Scarlet", "Second", "Secret", "Silent", "Silver", "Sleeping", "Slow", "Stone",
    "Strange", "Sunken", "Tall", "Unwritten", "Upper", "Violet", "Wandering", "White", "Wild", "Winter", "Wooden",
)  # fmt: skip
NOUNS = (
    "Anchor", "Archive", "Bakery", "Balcony", "Bell", "Bridge", "Candle", "Canal", "Carriage", "Cathedral", "Causeway",
    "Chapel", "Choir", "Circus", "Clock", "Compass", "Coast", "Corridor", "Courtyard", "Crossing", "Dancer", "Daughter",
    "Dial", "Door", "Estuary", "Fair", "Farewell", "Ferry", "Field", "Fountain", "Garden", "Gate", "Guest", "Harbour",
    "Harvest", "Heron", "House", "Inheritance", "Inn", "Island", "Journey", "Key", "Labyrinth", "Ladder", "Lake",
    "Lantern", "Letter", "Library", "Lighthouse", "Loom", "Map", "Market", "Meadow", "Messenger", "Mill", "Mirror",
    "Mountain", "Neighbour", "Orchard", "Organ", "Passenger", "Pavilion", "Pilgrim", "Postmaster", "Promise", "Quarry",
    "Regatta", "Ribbon", "River", "Road", "Season", "Shepherd", "Shore", "Sister", "Stair", "Station", "Stranger",
    "Summer", "Table", "Telescope", "Tide", "Tower", "Train", "Treaty", "Valley", "Vineyard", "Voyage", "Weaver",
    "Window", "Workshop",
)  # fmt: skip

GENRES = {
    "novel": ("author", "written", "press"),
    "play": ("author", "written", "theatre"),
    "memoir": ("author", "written", "press"),
    "treatise": ("author", "written", "press"),
    "painting": ("painter", "painted", "museum"),
    "opera": ("composer", "composed", "theatre"),
    "symphony": ("composer", "composed", "theatre"),
}
"""Who makes it, how it is made, and the type of institution where it came out or is kept."""
PROFESSIONS = {
    "novelist": ("novel", "memoir"),
    "playwright": ("play", "novel"),
    "painter": ("painting", "memoir"),
    "composer": ("opera", "symphony"),
    "chemist": ("treatise", "memoir"),
    "botanist": ("treatise", "memoir"),
    "astronomer": ("treatise", "memoir"),
    "geologist": ("treatise", "memoir"),
    "historian": ("treatise", "memoir"),
    "philosopher": ("treatise", "play"),
    "explorer": ("memoir", "treatise"),
    "physician": ("treatise", "novel"),
}
"""What people do, and what they make."""
INSTITUTIONS = ("university", "academy", "museum", "theatre", "press")
SCHOOLS = ("university", "academy")

SENTENCES: dict[str, tuple[tuple[str, ...], ...]] = {
    "life": (
        (
            "{S}, born in {born_in} in {born}, made a name as {profession}.",
            "Born in {born_in} in {born}, {s} worked as {profession}.",
            "{S} was born in {born} in {born_in}; the profession in which {s} became known was that of {profession}.",
        ),
        (
            "{S} was a child of {parent}.",
            "{S} grew up as a child of {parent}.",
            "As a child of {parent}, {s} met learned company early.",
        ),
        (
            "{S} studied at {studied_at}.",
            "{S} was educated at {studied_at}.",
            "For studies {s} went to {studied_at}.",
        ),
        (
            "{S} was a pupil of {student_of}.",
            "{S} learnt the trade from {student_of}.",
            "The teacher to whom {s} owed most was {student_of}.",
        ),
        ("{S} died in {died}.", "{S} lived until {died}.", "The life that {s} led ended in {died}."),
    ),
    "career": (
        (
            "Known works by {s}: {works}.",
            "By {s} we have {works}.",
            "Catalogues list as works by {s}: {works}.",
        ),
        (
            "{S} was married to {spouse}.",
            "{S} was the spouse of {spouse}.",
            "In marriage {s} was joined to {spouse}.",
        ),
    ),
    "work": (
        (
            "{S} was {made} by {creator} and completed in {completed}.",
            "Completed in {completed}, {s} was {made} by {creator}.",
            "{creator} completed {s} in {completed}.",
        ),
        ("{S} is based on {based_on}.", "{S} takes its subject from {based_on}.", "The model for {s} was {based_on}."),
    ),
    "work at press": (
        (
            "{S} was published by {home}.",
            "{S} came out at {home}.",
            "The publisher of {s} was {home}.",
        ),
    ),
    "work at theatre": (
        (
            "{S} was first performed at {home}.",
            "{S} had its first night at {home}.",
            "The house that first gave {s} was {home}.",
        ),
    ),
    "work at museum": (
        ("{S} is kept at {home}.", "{S} hangs in {home}.", "The collection that holds {s} is that of {home}."),
    ),
    "institution": (
        (
            "{S} stands in {located_in} and was founded in {founded} by {founder}.",
            "{S} was founded by {founder} in {founded}, in {located_in}.",
            "In {founded} {founder} founded {s} in {located_in}.",
        ),
    ),
    "city": (
        (
            "{S} is a city in {country}, on the river {river}, founded in {founded}.",
            "Founded in {founded}, {s} is a city of {country} on the river {river}.",
            "On the river {river}, in {country}, lies {s}, a city founded in {founded}.",
        ),
        (
            "Of note in {s} there are {institutions}.",
            "Visitors of {s} are shown {institutions}.",
            "Among its houses {s} counts {institutions}.",
        ),
    ),
    "country": (
        (
            "{S} is a country governed from its capital, {capital}.",
            "The capital of {s} is {capital}.",
            "{S} has its capital at {capital}.",
        ),
        (
            "The people of {s} speak {language}.",
            "The language of {s} is {language}.",
            "In {s} one hears {language}.",
        ),
        ("The currency of {s} is the {currency}.", "One pays in {s} with the {currency}.", "{S} mints the {currency}."),
    ),
    "prize": (
        (
            "{S} went to {winner} for {honoured}.",
            "{S} was won by {winner}; what had convinced the jury was {honoured}.",
            "For {honoured}, {winner} received {s}.",
        ),
        (
            "{S} was awarded by {awarded_by}.",
            "The body that awarded {s} was {awarded_by}.",
            "{awarded_by} awarded {s}.",
        ),
    ),
    "expedition": (
        (
            "{S} set out from {departed_from} in {departed}, led by {leader}.",
            "Led by {leader}, {s} left {departed_from} in {departed}.",
            "In {departed} {leader} led {s} out of {departed_from}.",
        ),
    ),
}
"""For each kind of article its parts, in their order, and for each part its wordings."""
FILLERS = (
    "Letters on the subject are few.",
    "Later accounts differ on the details.",
    "The sources are silent about much else.",
    "A small literature has grown around the subject.",
    "Popular accounts add stories that cannot be verified.",
    "Contemporaries took little notice.",
    "Several archives hold papers that remain unread.",
    "The matter was long a favourite of local newspapers.",
)
"""Sentences that state nothing."""
