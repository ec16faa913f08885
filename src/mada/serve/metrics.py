"""What Prometheus reads at `/metrics`."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mada.serve.teams import Catalogue

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)


class Metrics:
    """Counters of one server; what models are doing is read when somebody asks."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._registry = CollectorRegistry()
        labels = ("model", "status")
        self.requests = Counter("mada_requests", "Requests answered", labels, registry=self._registry)
        self.seconds = Histogram(
            "mada_request_seconds",
            "Time to the end of an answer",
            ("model",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.prompt_tokens = Counter("mada_prompt_tokens", "Prompt tokens", ("model",), registry=self._registry)
        self.tokens = Counter("mada_generated_tokens", "Tokens generated", ("model",), registry=self._registry)
        self.debates = Counter("mada_debates", "Debates held", ("model", "outcome"), registry=self._registry)
        self._registry.register(_Models(catalogue))

    def text(self) -> bytes:
        """Return all metrics in Prometheus's format."""
        return generate_latest(self._registry)


class _Models(Collector):
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def collect(self):  # pyright: ignore
        """Yield what the models are doing now."""
        values = {
            "mada_requests_working": ("Requests being worked on", lambda model: model.admission.working),
            "mada_requests_waiting": ("Requests waiting for their turn", lambda model: model.admission.waiting),
            "mada_engine_rows": ("Rows that the engine samples now", _rows),
            "mada_engine_ready": ("Whether the engine works", lambda model: model.is_ready),
        }
        for name, (help_text, value_of) in values.items():
            gauge = GaugeMetricFamily(name, help_text, labels=["model"])
            for model in self._catalogue.models:
                value = value_of(model)
                if value is not None:
                    gauge.add_metric([model.name], float(value))
            yield gauge


def _rows(model):  # pyright: ignore
    return getattr(model.loaded.engine, "rows_in_use", None) if model.is_ready else 0
