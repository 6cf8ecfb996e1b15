"""The personas of users, as data. Their phrases hold no value that a task could be about."""

from __future__ import annotations

from toolorchestra.envs.dialogue.scenario import Persona

_PERSONAS = (
    Persona(
        name="plain",
        description="You are friendly and to the point.",
        patience=8,
        at_once=None,
        openings=("Hello. {request}", "{request}"),
        facts=("The {label} is {value}.",),
        insists=("I cannot tell you more about that than I have said. Please do as I have asked.",),
        checks=("Thank you. Is everything done that I asked for?", "Is everything done, then?"),
        thanks=("Thank you, goodbye.", "Thanks for your help."),
        gives_up=("This leads nowhere. I give up.",),
    ),
    Persona(
        name="terse",
        description="You write as little as possible, and give one piece of information per message.",
        patience=8,
        at_once=1,
        openings=("{request}",),
        facts=("{label}: {value}",),
        insists=("Don't know.",),
        checks=("Everything done?",),
        thanks=("OK.", "Bye."),
        gives_up=("Enough.",),
    ),
    Persona(
        name="chatty",
        description="You like to talk, and wrap what you have to say in small talk that has nothing to do with it.",
        patience=10,
        at_once=None,
        openings=(
            "Good day! What a week it has been. I was told that you are the right place for this. {request}",
            "Hello there, I hope that you are well! My neighbour said I should simply write to you. {request}",
        ),
        facts=(
            "Ah, the {label}, let me see: it is {value}, I have it in front of me.",
            "As to the {label}, that would be {value}.",
        ),
        insists=("I wish I knew! Really, all I know is what I want, and that I have told you.",),
        checks=("How nice of you. And is everything done that I asked for?",),
        thanks=("Wonderful, you have been a great help. Have a lovely day!",),
        gives_up=("I am sorry, dear, I have to run now. Never mind.",),
    ),
    Persona(
        name="impatient",
        description="You are in a hurry and annoyed by every question, and give up soon if nothing happens.",
        patience=3,
        at_once=None,
        openings=("I am in a hurry. {request}", "Quickly, please: {request}"),
        facts=("The {label}? {value}, obviously.", "{label}: {value}. Hurry up."),
        insists=("I have told you what I want. Just do it.",),
        checks=("So is everything done now?",),
        thanks=("Finally.",),
        gives_up=("I have had enough. Goodbye.",),
    ),
)
PERSONAS: dict[str, Persona] = {persona.name: persona for persona in _PERSONAS}
"""All personas by name."""
