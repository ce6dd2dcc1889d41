"""The synthetic tasks of the demo model: which posts a user likes, and which credit is granted.

A label follows from a rule over the profile and the post (or the record and the amount), so that
neither alone predicts it. Everything is drawn from the random.Random that the caller passes.
"""

TOPICS = {
    "cooking": "recipe pasta oven garlic soup grill bakery spice risotto kitchen stew chef sauce bread butter noodle",
    "sailing": "yacht harbour anchor regatta mast tide keel rudder sailor deck buoy skipper dinghy lagoon knots jib",
    "chess": "opening gambit checkmate rook bishop endgame grandmaster pawn tournament castling knight tactics blitz sacrifice queen elo",
    "gardening": "tomato compost seedling rose pruning greenhouse soil tulip hedge orchard watering mulch shovel herbs bulb lawn",
    "astronomy": "telescope comet galaxy nebula planet eclipse orbit meteor asteroid star crater satellite cosmos supernova moon lens",
    "football": "goalkeeper penalty striker league offside midfield stadium derby coach kickoff defender referee corner dribble trophy fans",
    "jazz": "saxophone trumpet improvisation swing quartet bebop bassline trombone solo ballad drummer vinyl syncopation blues standards ensemble",
    "finance": "stocks dividend portfolio inflation bonds interest broker pension budget savings hedging index earnings mortgage currency audit",
    "programming": "compiler debugger algorithm database kernel function variable thread refactoring parser server framework recursion pointer repository latency",
    "travel": "passport hostel backpack itinerary airport luggage island visa train guidebook border souvenir sunset ferry hotel jetlag",
    "fitness": "treadmill squat dumbbell stretching cardio protein plank gym pushups warmup endurance yoga rowing kettlebell posture trainer",
    "photography": "camera shutter aperture tripod exposure flash darkroom zoom pixel negative focus framing bokeh macro filter timelapse",
    "movies": "director screenplay actor thriller sequel cinema trailer drama documentary premiere stunt animation casting oscar scene villain",
    "pets": "puppy kitten leash aquarium hamster veterinarian parrot kennel collar rabbit grooming terrier litter whiskers treats goldfish",
    "cars": "engine turbo gearbox sedan hybrid brakes rally coupe dashboard diesel ignition roadster clutch exhaust convertible charger",
    "gaming": "console joystick quest multiplayer dungeon speedrun avatar arcade loot puzzle boss pixelart respawn controller guild level",
}
WORDS = {topic: words.split() for topic, words in TOPICS.items()}
NAMES = list(TOPICS)

TITLES = [
    "A beginner's guide to the {0} and the {1}", "Why the {0} matters more than the {1}", "My first {0} and what I learned",
    "Ten tips for a better {0}", "The {0} that changed my mind", "How to choose between {0} and {1}",
    "What nobody tells you about the {0}", "Everything about {0}, {1} and {2}", "Is the {0} worth it?",
    "A short story of the {0}", "{0} and {1} for busy people", "We tested every {0} of this year",
    "Ask me anything about {0}", "Best {0} of the week, with notes on the {1}", "The {0} problem, explained",
]
ASK_POST = ["Will the user like it?", "Will the user like this post?", "Is it interesting to the user?"]
ASK_CREDIT = ["Should credit be granted?", "Should the credit be granted?"]
DEBTS = ["zero", "small", "moderate", "heavy"]
MISSED = ["never", "once", "twice", "often"]
TAIL = "Answer Yes or No:"


def listing(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def title(rng, topic):
    words = rng.sample(WORDS[topic], 3)
    text = rng.choice(TITLES).format(*words)
    return text[0].upper() + text[1:]


class User:
    """Reads about 2 to 6 topics, and likes the posts about them."""

    def __init__(self, rng, long=False):
        self.rng = rng
        self.liked = rng.sample(NAMES, rng.randint(2, 6))
        lines = ["User profile: age %d. Interests: %s." % (rng.randint(18, 80), listing([t.capitalize() for t in self.liked]))]
        reads = rng.randint(8, 16) if long else rng.randint(0, 5)
        if reads:
            lines.append("History: " + "; ".join(title(rng, rng.choice(self.liked)) for _ in range(reads)) + ".")
        self.profile = "\n".join(lines)
        self.key = frozenset(self.liked)
        self.ask = rng.choice(ASK_POST) + " " + TAIL

    def question(self):
        """A post's topic, and the text of the post; half of the topics are liked."""
        liked = self.rng.random() < 0.5
        topic = self.rng.choice(self.liked if liked else [t for t in NAMES if t not in self.liked])
        return topic, "Post about %s: %s\n" % (topic, title(self.rng, topic))

    def answer(self, topic):
        return topic in self.liked


class Applicant:
    """Gets credit up to half the income, less 10k for every step of debts and of missed payments."""

    def __init__(self, rng, long=False):
        self.rng = rng
        income, debts, missed = 5 * rng.randint(4, 30), rng.choice([0, 0, 1, 2, 3]), rng.choice([0, 0, 0, 1, 2, 3])
        lines = ["Applicant record: Income %dk a year. Debts: %s. Missed payments: %s." % (income, DEBTS[debts], MISSED[missed])]
        if long:
            lines.append("Accounts: " + ", ".join(
                rng.choice(["rent", "card", "loan", "savings", "deposit"]) for _ in range(rng.randint(30, 60))) + ".")
        self.profile = "\n".join(lines)
        self.key = (income, debts, missed)
        self.limit = income / 2 - 10 * debts - 10 * missed
        self.ask = rng.choice(ASK_CREDIT) + " " + TAIL

    def question(self):
        """An amount in thousands, and the text of the request; an amount at the limit is left out."""
        amounts = range(5, 85, 5)
        granted = [a for a in amounts if self.answer(a)]
        refused = [a for a in amounts if self.answer(a) is False]
        amount = self.rng.choice(granted if granted and self.rng.random() < 0.5 else refused)
        return amount, "Request: a credit of %dk.\n" % amount

    def answer(self, amount):
        """True, False, or None when the amount is the limit."""
        return None if amount == self.limit else amount < self.limit


TASKS = {"post": User, "credit": Applicant}
