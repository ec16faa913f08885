"""`mada params`: how large is a base model, and how much of it would a team train?"""

from typing import TYPE_CHECKING, Annotated

import typer

from mada.cli.terminal import console, names_in, print_json, silence_libraries
from mada.text import counted, in_bytes, sanitize

if TYPE_CHECKING:
    from mada.models.memory import ParameterCount


def params(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model's Hub id, its folder, a config.json, or mada-nano.")
    ],
    rank: Annotated[int, typer.Option(min=1, help="Rank of every adapter.")] = 16,
    agents: Annotated[int, typer.Option(min=1, help="Agents of the team, each with an adapter of its own.")] = 1,
    targets: Annotated[
        str, typer.Option(help="Layers with an adapter: names with commas between them, or all-linear.")
    ] = "all-linear",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the Hub.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count a model's parameters and those its agents would train, without loading any weights."""
    layer_names = tuple(names_in(targets))
    if not layer_names:
        raise typer.BadParameter("got no layer names, wanted some, such as q_proj,v_proj, or all-linear")
    silence_libraries()
    from mada.models.adapters.layer import Lora
    from mada.models.memory import count_parameters

    lora = Lora(rank=rank, targets="all-linear" if layer_names == ("all-linear",) else layer_names)
    count = count_parameters(model, lora=lora, agents=agents, revision=revision)
    if as_json:
        names = ("model", "base", "rank", "per_agent", "agents", "trainable", "adapter_bytes", "optimizer_bytes")
        layers = [{"name": kind.name, "layers": kind.layers, "parameters": kind.parameters} for kind in count.kinds]
        print_json({**{name: getattr(count, name) for name in names}, "layers": layers})
    else:
        _print_table(count)


def _print_table(count: "ParameterCount") -> None:
    from rich import box
    from rich.table import Table

    def share(parameters: int) -> str:
        return f"{parameters / count.base:.3%}"

    table = Table("", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("parameters", "of the base"):
        table.add_column(name, justify="right")
    table.add_row("base", f"{count.base:,}", "")
    table.add_row(f"one agent at rank {count.rank}", f"{count.per_agent:,}", share(count.per_agent))
    for kind in count.kinds:
        layers = counted(kind.layers, "layer")
        table.add_row(f"  {sanitize(kind.name)}, {layers}", f"{kind.parameters:,}", share(kind.parameters), style="dim")
    if count.agents > 1:
        table.add_row(counted(count.agents, "agent"), f"{count.trainable:,}", share(count.trainable))
    screen = console()
    screen.print(sanitize(count.model), soft_wrap=True)
    screen.print(table)
    adapters, optimizer = in_bytes(count.adapter_bytes), in_bytes(count.optimizer_bytes)
    screen.print(f"\nmemory in float32: adapters {adapters}, AdamW's state {optimizer}", soft_wrap=True)
