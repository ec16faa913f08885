"""Everything mada raises on purpose.

MadaError                  a mistake the user can fix; the command line prints it without a traceback, exit code 2
├── RecipeError            a recipe file or override that does not say something valid
├── DataError              a problem file, data set or row that cannot be used
├── RunError               a run folder that is locked, damaged, or belongs to another recipe
├── GradingError           the grader cannot work at all (a single odd answer never raises: it gets a verdict)
├── ModelError             a model that cannot be loaded or used
├── AdapterError           an adapter that does not fit the base, or an agent that is not there
├── EngineError            a request that an engine cannot serve: too long, or too large for its memory
│   └── UnansweredError    one request that a server fails to answer, while it answers others
├── LearningError          training cannot go on: a loss that is not a number, no memory left, a strange checkpoint
└── EvaluationError        results that cannot be compared: scores missing, twice there, or of an unknown system
"""


class MadaError(Exception):
    """A mistake the user can fix. The message says what was got, what was wanted, and what to do next."""


class RecipeError(MadaError):
    """A recipe file or a `key=value` override does not say something valid."""


class DataError(MadaError):
    """A problem file, a data set or one of its rows cannot be used."""


class RunError(MadaError):
    """A run folder is locked, damaged, or was made by another recipe."""


class GradingError(MadaError):
    """The grading workers cannot be started or keep dying for reasons outside the answers they grade."""


class ModelError(MadaError):
    """A model cannot be loaded, or is of a kind mada cannot use."""


class AdapterError(MadaError):
    """An adapter does not fit the base model, or an agent is not there."""


class EngineError(MadaError):
    """A request cannot be served: it is longer than the window, or larger than the engine's memory."""


class UnansweredError(EngineError):
    """A server fails at one request and answers others: the request counts as unanswered, and the work goes on."""


class LearningError(MadaError):
    """Training cannot go on; what was finished before is kept."""


class EvaluationError(MadaError):
    """Results cannot be compared: some are missing or twice there, or nobody said what they are results of."""
