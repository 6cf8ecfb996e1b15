"""The fictional world behind the synthetic encyclopaedia: its people, places and dates, all in agreement.

`FictionalWorld` draws entities and facts; how they are written down is
`toolorchestra.envs.encyclopaedia.encyclopaedia`'s.
"""

from __future__ import annotations

import bisect
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from toolorchestra.envs.encyclopaedia.words import EncyclopaediaWords

LAST_YEAR = 2020
_TWINS = 0.12  # share of people and of cities that have the name of another
_BASED = 0.12  # share of works that are based on an earlier one and have its title


class WorldFact(msgspec.Struct, frozen=True):
    """That a relation holds between an entity and a value (another entity's key, or words)."""

    subject: str
    relation: str
    value: str


class Entity(msgspec.Struct, frozen=True):
    """Something that has an article.

    Attributes:
        key: Its kind and number.
        kind: ``person``, ``city``, ``country``, ``institution``, ``work`` or ``event``.
        name: As people say it; others may have the same.
        mention: As texts say it; nobody else's.
        title: Title of its article; no other's.
        sort: What it is, in a word: a profession, a genre, a type of institution or event.
        pronoun: What later sentences call it.
    """

    key: str
    kind: str
    name: str
    mention: str
    title: str
    sort: str = ""
    pronoun: str = "it"


class _Life(msgspec.Struct, frozen=True):
    person: Entity
    born: int
    died: int

    @property
    def family(self) -> str:
        return self.person.name.split()[-1]

    def may_have_child_in(self, year: int) -> bool:
        return 20 <= year - self.born < 46 and year <= self.died


class _Work(msgspec.Struct, frozen=True):
    work: Entity
    creator: _Life
    completed: int


class _Houses:
    """Institutions of some types, in the order of their founding."""

    def __init__(self, houses: Sequence[tuple[Entity, int]], sorts: Sequence[str]) -> None:
        self._houses = sorted(((year, house.key, house) for house, year in houses if house.sort in sorts))

    def open_in(self, year: int, rng: random.Random) -> Entity | None:
        """Return one that was open in a year, or None."""
        count = bisect.bisect_right(self._houses, (year + 1, ""), key=lambda house: house[:2])
        return self._houses[rng.randrange(count)][2] if count else None


class FictionalWorld:
    """Draws the entities (by key) and the facts of a world of so many people, and of all else in proportion."""

    def __init__(self, rng: random.Random, people: int, words: EncyclopaediaWords) -> None:
        self._rng, self._words = rng, words
        self._used: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._titles: dict[str, list[_Work]] = defaultdict(list)
        self._made: list[_Work] = []
        self.entities: dict[str, Entity] = {}
        self.facts: list[WorldFact] = []
        cities = self._places(max(6, people // 30), max(18, people // 6))
        lives = self._people(people, cities)
        houses = self._institutions(max(15, people // 5), lives, cities)
        self._upbringing(lives, houses)
        self._works(people * 13 // 10, lives, houses)
        self._events(max(10, people // 5), lives, houses, cities)

    def _add(self, kind: str, name: str, *labels: str, sort: str = "", pronoun: str = "it") -> Entity:
        """Add an entity; its labels are its mention and its title, where those are not its name."""
        key = f"{kind}/{self._numbers[kind]}"
        self._numbers[kind] += 1
        mention, title = (*labels, name, name)[:2]
        self.entities[key] = Entity(key, kind, name, mention, title, sort, pronoun)
        return self.entities[key]

    def _state(self, subject: Entity, **relations: Entity | str | int) -> None:
        for relation, value in relations.items():
            self.facts.append(WorldFact(subject.key, relation, value.key if isinstance(value, Entity) else str(value)))

    # ---------------------------------------------------------------------------------------------- names

    def _word(self, endings: Sequence[str] = ("",)) -> str:
        """Return a name that nothing else has."""
        rng = self._rng
        while True:
            word = rng.choice(self._words.onsets) + rng.choice(self._words.vowels) + rng.choice(self._words.middles)
            if ending := rng.choice(endings):
                word += (rng.choice("aeio") if ending[0] not in "aeiou" and rng.random() < 0.5 else "") + ending
            else:
                word += rng.choice(self._words.vowels[:5]) + rng.choice(self._words.codas)
            if word in self._used or len(word) < 4:  # short names are used up first
                word = word[:2] + rng.choice(self._words.middles) + rng.choice("aeiou") + word[2:]
            if word not in self._used:
                self._used.add(word)
                return word.capitalize()

    def _title(self) -> str:
        rng = self._rng
        while True:
            title = f"The {rng.choice(self._words.adjectives)} {rng.choice(self._words.nouns)}"
            if title not in self._titles:
                return title
            if rng.random() < 0.5:
                return f"{title} of {self._word()}"

    # --------------------------------------------------------------------------------------------- places

    def _places(self, countries: int, cities: int) -> list[Entity]:
        rng = self._rng
        lands = [self._add("country", self._word(self._words.country_endings)) for _ in range(countries)]
        for land in lands:
            language, coin = self._word(self._words.language_endings), self._word()
            self._state(land, language=language, currency=f"{coin} {rng.choice(self._words.coins)}")
        rivers = [self._word() for _ in range(max(3, cities // 3))]
        plan: list[tuple[str, Entity]] = []
        for number in range(cities):
            land, name = lands[number % countries], ""
            if number >= countries and rng.random() < _TWINS:
                name = rng.choice(plan)[0]
            if not name or any(where is land for other, where in plan if other == name):
                name = self._word(self._words.city_endings)
            plan.append((name, land))
        shared = Counter(name for name, _ in plan)
        found: list[Entity] = []
        for name, land in plan:
            labels = () if shared[name] == 1 else (f"{name} in {land.name}", f"{name} ({land.name})")
            city = self._add("city", name, *labels)
            self._state(city, country=land, river=rng.choice(rivers), founded=rng.randint(900, 1500))
            found.append(city)
        for number, land in enumerate(lands):
            self._state(land, capital=rng.choice(found[number::countries]))
        return found

    # --------------------------------------------------------------------------------------------- people

    def _people(self, count: int, cities: list[Entity]) -> list[_Life]:
        """Draw people in the order of their birth, with a parent (of the same family) where there is a fit one."""
        rng = self._rng
        families = [self._word(self._words.family_endings) for _ in range(max(20, count // 2))]
        plan: list[tuple[str, str, str]] = []  # name, profession, pronoun
        taken: set[tuple[str, str]] = set()
        for _ in range(count):
            pronoun = rng.choice(("she", "he"))
            profession = rng.choice(sorted(self._words.professions))
            name = f"{rng.choice(self._words.given[pronoun])} {rng.choice(families)}"
            if plan and rng.random() < _TWINS:
                name, other, pronoun = rng.choice(plan)
                profession = rng.choice(sorted(set(self._words.professions) - {other}))
            while (name, profession) in taken:
                name = f"{rng.choice(self._words.given[pronoun])} {rng.choice(families)}"
            taken.add((name, profession))
            plan.append((name, profession, pronoun))
        shared = Counter(name for name, _, _ in plan)
        lives: list[_Life] = []
        births = sorted(rng.choices(range(1740, 1966), k=count))
        for (name, profession, pronoun), born in zip(plan, births, strict=True):
            labels = () if shared[name] == 1 else (f"the {profession} {name}", f"{name} ({profession})")
            person = self._add("person", name, *labels, sort=profession, pronoun=pronoun)
            life = _Life(person, born, born + rng.randint(45, 92))
            self._state(person, profession=profession, born=born, born_in=rng.choice(cities))
            if life.died <= LAST_YEAR:
                self._state(person, died=life.died)
            lives.append(life)
        return lives

    def _upbringing(self, lives: list[_Life], houses: list[tuple[Entity, int]]) -> None:
        """Give people parents, schools, teachers and spouses that fit their dates."""
        rng = self._rng
        by_family: dict[str, list[_Life]] = defaultdict(list)
        schools = _Houses(houses, self._words.schools)
        free: list[_Life] = []
        for number, life in enumerate(lives):
            person, family = life.person, life.family
            parents = [other for other in by_family[family] if other.may_have_child_in(life.born)]
            if parents:
                self._state(person, parent=rng.choice(parents).person)
            by_family[family].append(life)
            school = schools.open_in(life.born + 18, rng)
            if school is not None and rng.random() < 0.9:
                self._state(person, studied_at=school)
            elders = [other for other in lives[max(0, number - 400) : number] if 15 <= life.born - other.born <= 50]
            elders = [other for other in elders if other.died >= life.born + 22]
            if elders and rng.random() < 0.6:
                self._state(person, student_of=rng.choice(elders).person)
            fits = [i for i, other in enumerate(free) if life.born - other.born <= 12 and other.died >= life.born + 24]
            fits = [i for i in fits if free[i].family != family]
            if fits and rng.random() < 0.7:
                spouse = free.pop(rng.choice(fits)).person
                self._state(person, spouse=spouse)
                self._state(spouse, spouse=person)
            else:
                free = [*free[-60:], life]

    # --------------------------------------------------------------------------------- houses, works, events

    def _institutions(self, count: int, lives: list[_Life], cities: list[Entity]) -> list[tuple[Entity, int]]:
        """Draw institutions with the year of their founding."""
        rng = self._rng
        found: list[tuple[Entity, int]] = []
        founders = [life for life in lives if life.born <= 1930]
        for number in range(count):
            sort = self._words.institutions[number % len(self._words.institutions)]
            # the first of each type are old, so that most people find one in their time
            early = founders[: max(3, len(founders) // 4)] if number < 2 * len(self._words.institutions) else founders
            founder = rng.choice(early)
            year = founder.born + rng.randint(28, 44)
            name = f"{self._word()} {sort.capitalize()}"
            house = self._add("institution", name, f"the {name}", sort=sort)
            city = rng.choice(cities)
            self._state(house, located_in=city, founded=year, founder=founder.person)
            self._state(city, institutions=house)
            found.append((house, year))
        return found

    def _works(self, count: int, lives: list[_Life], houses: list[tuple[Entity, int]]) -> None:
        rng = self._rng
        homes = {sort: _Houses(houses, (sort,)) for sort in self._words.institutions}
        for _ in range(count):
            life = rng.choice(lives)
            genre = self._words.professions[life.person.sort][rng.random() < 0.25]
            year = rng.randint(life.born + 22, min(life.died, life.born + 75, LAST_YEAR))
            model = self._model(genre, year, life) if rng.random() < _BASED else None
            title = model.name if model else self._title()
            work = self._add("work", title, f'the {genre} "{title}"', f"{title} ({genre})", sort=genre)
            self._made.append(_Work(work, life, year))
            self._titles[title].append(self._made[-1])
            self._state(work, creator=life.person, completed=year)
            self._state(life.person, works=work)
            if model is not None:
                self._state(work, based_on=model)
            home = homes[self._words.genres[genre][2]].open_in(year, rng)
            if home is not None:
                self._state(work, home=home)

    def _model(self, genre: str, year: int, life: _Life) -> Entity | None:
        """Return an earlier work of another genre and creator, or None."""
        for earlier in self._rng.sample(self._made, min(12, len(self._made))):
            named = self._titles[earlier.work.name]
            taken = {other.work.sort for other in named}
            if genre not in taken and named[0].completed < year and named[0].creator is not life:
                return named[0].work
        return None

    def _events(self, count: int, lives: list[_Life], houses: list[tuple[Entity, int]], cities: list[Entity]) -> None:
        rng = self._rng
        explorers = [life for life in lives if life.person.sort in self._words.leaders]
        for _ in range(count // 2):
            life = rng.choice(explorers or lives)
            year = rng.randint(life.born + 24, min(life.died, life.born + 60, LAST_YEAR))
            name = f"{self._word()} Expedition"
            event = self._add("event", name, f"the {name}", sort="expedition")
            self._state(event, leader=life.person, departed_from=rng.choice(cities), departed=year)
        made = 0
        while made < count - count // 2:
            house, opened = rng.choice(houses)
            prize, years = f"{self._word()} Prize", set[int]()
            for _ in range(rng.randint(3, 5)):  # editions of one prize: near misses of each other
                made_one = rng.choice(self._made)
                life, year = made_one.creator, made_one.completed + rng.randint(0, 6)
                if year in years or year < opened or year > min(life.died, LAST_YEAR):
                    continue
                years.add(year)
                event = self._add("event", f"{prize} of {year}", f"the {prize} of {year}", sort="prize")
                self._state(event, winner=life.person, honoured=made_one.work, awarded_by=house)
            made += max(1, len(years))
