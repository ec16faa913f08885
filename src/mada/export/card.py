"""The model card of an exported team: README.md in the Hub's format.

Every number is read from the run's records; what was not measured is said to be unknown. Whatever a recipe, a model or
a data set wrote is escaped as in reports, and in code it is quoted as its language does it.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from huggingface_hub import EvalResult, ModelCardData

from mada.agents import ADAPTERS, DebateSettings
from mada.debate.transcript import Role
from mada.evaluation.summary import Summary, power_note, summarize
from mada.models.adapters.peft_files import is_hub_id
from mada.problems.known import KNOWN_SETS, known_name
from mada.problems.sources import parse_sources
from mada.recipe import Recipe
from mada.report.document import Block, Section, Table, paragraph
from mada.report.forms.markdown import block_markdown, code, escaped, fenced, markdown, paragraph_markdown
from mada.report.paper.costs import training_table
from mada.report.publishing import opening_of, title_of, unfinished_section
from mada.report.reading import Source
from mada.report.sections.debates import ledger_section
from mada.report.sections.results import headline_tables, power_text
from mada.report.sections.run import costs_section, provenance_section, training_section
from mada.text import counted, printable

BASE = "base"
"""The folder within an export that holds mada's own base."""
TOKENIZER = "tokenizer"
TAGS = ("mada", "lora", "multi-agent-debate", "reinforcement-learning", "grpo")
_SHOWN = ("votes", "critics", "costs")
"""The report's tables that stand behind the headline's."""
_ADVANTAGES = {
    "grpo": "a reply's reward beside those of its group (GRPO)",
    "counterfactual": "the reward minus what the generators' own answers to the problem earn (counterfactual)",
}


@dataclass(frozen=True)
class Card:
    """What the card of a team is made of.

    `missing` are critics without a training, `base` is the folder or the Hub id of the base as seen from the card, and
    `revision` its commit, branch or tag.
    """

    source: Source
    recipe: Recipe
    agents: tuple[str, ...]
    missing: tuple[str, ...]
    base: str
    revision: str | None
    license_name: str | None = None

    @cached_property
    def summary(self) -> Summary | None:
        """The results of the evaluation; None before there are any."""
        return None if self.source.grid is None else summarize(self.source.grid)

    @property
    def is_embedded(self) -> bool:
        """Whether the base is mada's own, which the export then has."""
        return self.base == BASE

    @property
    def _has_critics(self) -> bool:
        return any(name.startswith("critic") for name in self.agents)

    def text(self) -> str:
        """Return the whole card."""
        opening = [self._what_it_is(), *map(paragraph_markdown, opening_of(self.source))]
        sections = [self._results(), self._use(), self._prompts(), self._training(), self._limits(), *self._about()]
        title = escaped(title_of(self.source.run))
        return "\n\n".join([f"---\n{self._metadata()}\n---", f"# {title}", *opening, *sections]) + "\n"

    def _metadata(self) -> str:
        """Return the front matter. The Hub refuses base models and data sets that it does not have."""
        evaluations = list(self._evaluations())
        data = ModelCardData(
            base_model=self.base if is_hub_id(self.base) else None,
            library_name="peft",
            pipeline_tag="text-generation",
            license=self.license_name,
            datasets=list(dict.fromkeys(hub_data_sets(self.recipe.data.train))) or None,
            tags=[*TAGS],
            model_name=printable(title_of(self.source.run)) if evaluations else None,
            eval_results=evaluations or None,
        )
        return data.to_yaml()

    def _evaluations(self) -> Iterator[EvalResult]:
        """Yield the team's accuracy on every benchmark, once the evaluation is finished."""
        if self.summary is None or self.source.left_out:
            return
        team = self.summary.reference
        for name, estimate in team.verdict.benchmarks.items():
            about = [counted(self.summary.benchmarks[name], "problem"), counted(len(self.summary.seeds), "seed")]
            if estimate.standard_error is not None:
                about.append(f"standard error {100 * estimate.standard_error:.1f}")
            yield EvalResult(
                task_type="text-generation",
                dataset_type=next(iter(hub_data_sets(name)), printable(name)),
                dataset_name=printable(name),
                metric_type="accuracy",
                metric_name=f"right verdicts of {printable(team.system.title)}, percent ({', '.join(about)})",
                metric_value=round(100 * estimate.mean, 1),
            )

    def _what_it_is(self) -> str:
        roles = [self._counted("generator"), *([self._counted("critic")] if self._has_critics else [])]
        name = code(self.recipe.model.name)
        after = ", critics after reading all of their responses" if self._has_critics else ""
        text = (
            f"{' and '.join(roles)}, trained with mada: LoRA adapters of rank {self.recipe.lora.rank} on {name}"
            f"{f' (`{BASE}/`)' if self.is_embedded else ''}. They answer a question together: generators each on their "
            f"own{after}; the last round votes."
        )
        if self.missing:
            text += (
                f"\n\n**The critics are missing**: {', '.join(self.missing)} had not been trained when this was "
                "exported. Without them the team is its generators, who vote after one round."
            )
        return text

    def _counted(self, role: Role) -> str:
        return counted(sum(name.startswith(role) for name in self.agents), role)

    def _results(self) -> str:
        grid = self.source.grid
        if grid is None or self.summary is None:
            begun = "has begun, and no seed of it is finished" if self.source.left_out else "has not begun"
            return f"## Results\n\nThe evaluation of this team {begun}: how often it is right is not known."
        blocks: list[Block] = [*headline_tables(self.summary)]
        for section in (ledger_section(grid), costs_section(self.source)):
            blocks += [one for one in (section.blocks if section else ()) if _is_shown(one)]
        if len(self.summary.systems) > 1:
            blocks.append(paragraph(power_text(power_note(grid))))
        if self.source.left_out:
            blocks = [*unfinished_section(self.source.left_out).blocks, *blocks]
        return markdown(Section("results", "Results", tuple(blocks)))

    def _use(self) -> str:
        one_round = " --rounds 1" if self.missing else ""
        commands = f"""\
# here, with the adapters of this folder
mada debate --run .{one_round} "QUESTION"
# with vLLM: its server has every agent as a model, and mada debates with it
./serve.sh
mada debate --run .{one_round} --server http://localhost:8000/v1 "QUESTION\""""
        if not self.missing:
            commands += "\n# the team as one model of a server\nmada serve ."
        sglang = [
            *("python", "-m", "sglang.launch_server", "--model-path", self.base),
            *(("--revision", self.revision) if self.revision else ()),
            *("--tokenizer-path", TOKENIZER),
            *("--enable-lora", "--max-loras-per-batch", str(len(self.agents) + 1)),
            *("--lora-paths", *(f"{name}={ADAPTERS}/{name}" for name in self.agents)),
        ]
        names = ", ".join(f"`{name}`" for name in self.agents)
        return f"""\
## Use

In the folder of this card, with mada (the distribution `mada-rl`):

{fenced(commands, "bash")}

Any client of vLLM's server asks an agent by its name, {names}, with the prompts and the sampling below. The same with \
SGLang (not tested):

{fenced(shlex.join(sglang), "bash")}

With PEFT, one agent at a time:

{fenced(self.peft_code(), "python")}"""

    def peft_code(self) -> str:
        """Return Python that asks the first agent."""
        first, *others = self.agents
        pinned = f", revision={self.revision!r}" if self.revision else ""
        sampling = self.recipe.inference
        how = "do_sample=False"
        if sampling.temperature:
            how = f"do_sample=True, temperature={sampling.temperature}, top_p={sampling.top_p}, "
            how += f"top_k={sampling.top_k or 0}"
        others_load = "".join(f'model.load_adapter("{ADAPTERS}/{name}", adapter_name="{name}")\n' for name in others)
        return f"""\
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{TOKENIZER}")
model = AutoModelForCausalLM.from_pretrained({self.base!r}{pinned})
model = PeftModel.from_pretrained(model, "{ADAPTERS}/{first}", adapter_name="{first}")
{others_load}model.set_adapter("{first}")

prompt = {DebateSettings.of(self.recipe).prompts.reasoning!r}
messages = [{{"role": "user", "content": prompt.replace("{{question}}", "What is 12 + 30 - 5?")}}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")
reply = model.generate(**inputs, max_new_tokens={sampling.max_new_tokens}, {how})
print(tokenizer.decode(reply[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""

    def _prompts(self) -> str:
        prompts, sampling, window = (
            DebateSettings.of(self.recipe).prompts,
            self.recipe.inference,
            self.recipe.model.window,
        )
        count = self.recipe.team.generators
        parts = [
            "A prompt is one user message in the base's own chat template. Generators are asked:",
            fenced(prompts.ask("{question}")),
        ]
        if self._has_critics:
            seen = "the part behind its thinking" if prompts.share == "answer" else "the whole text"
            order = ", in an order shuffled for each critic" if prompts.order == "shuffled" else ""
            responses = [f"{{response {number}}}" for number in range(1, count + 1)]
            parts += [
                f"Critics see {seen} of every response of the round before{order}; where these are too long together, "
                f"their middles are left out. With {counted(count, 'response')} they are asked:",
                fenced(prompts.debate_prompt("{question}", responses)),
            ]
        top_k = "" if sampling.top_k is None else f", top k {sampling.top_k}"
        parts += [
            f"Sampling: temperature {sampling.temperature:g}, top p {sampling.top_p:g}{top_k}; a reply has at most "
            f"{sampling.max_new_tokens:,} tokens{f', with its prompt {window:,}' if window else ''}.",
            f"A debate has {counted(1 if self.missing else self.recipe.team.rounds, 'round')}. A reply's answer is "
            "what its last `\\boxed{…}` holds; equal answers count together. The answer that most replies of the last "
            "round give is the verdict; where several have the most, the votes of the round before decide.",
        ]
        return "\n\n".join(["## Prompts and sampling", *parts])

    def _training(self) -> str:
        recipe = self.recipe
        names = ", ".join(map(escaped, recipe.decontaminate))
        left_out = f", without copies of {names}" if names else ""
        text = (
            f"The problems are those of {code(recipe.data.train)}{left_out}; each agent has a part of its own. "
            "Generators learn from the bare question, and what counts is "
            f"{_ADVANTAGES[recipe.generators.advantage]}."
        )
        if self._has_critics:
            text += (
                " Critics learn from the question with the generators' responses, and what counts is "
                f"{_ADVANTAGES[recipe.critics.advantage]}."
            )
        text += (
            f" Rewards weigh a right answer with {recipe.reward.accuracy:g} and a short one with "
            f"{recipe.reward.length:g}. Every adapter is the one that was best on the validation set. All settings are "
            "in `recipe.toml`."
        )
        blocks: list[Block] = [table] if (table := training_table(self.source.run.manifest.recipe)) else []
        if outcomes := training_section(self.source):
            blocks += outcomes.blocks
        return "\n\n".join(["## Training", text, *filter(None, map(block_markdown, blocks))])

    def _limits(self) -> str:
        train = code(self.recipe.data.train)
        if self.summary is None:
            measured = "Nothing is known about how right the team is."
        else:
            names = ", ".join(map(escaped, self.summary.benchmarks))
            measured = (
                f"Measured on {names} with these prompts, this sampling and all agents together. The numbers say "
                "nothing about other questions, prompts or bases, quantized weights, or an agent by itself."
            )
        lines = [
            f"For questions like those of {train}, each with one answer that can be compared, and for research on "
            "debate.",
            measured,
            "Agents share a base and its mistakes: they can agree on a wrong answer, and a unanimous vote is no proof. "
            "The reasons in a reply need not be how its answer came about.",
            "Rewards were for right and for short answers only. Nothing was trained or tested for safety. The base's "
            "own limits and license apply.",
        ]
        if self.is_embedded:
            lines.append(f"The base is a toy that knows only sums with words around them: see `{BASE}/README.md`.")
        return "## Intended use and limits\n\n" + "\n".join(f"- {line}" for line in lines)

    def _about(self) -> Iterator[str]:
        yield markdown(provenance_section(self.source))
        pinned = f" at revision {code(self.revision)}" if self.revision else ""
        where = f"in `{BASE}/`, mada's own model" if self.is_embedded else code(self.base) + pinned
        files = [
            f"`{ADAPTERS}/`: an adapter for each agent, in PEFT's format",
            f"the base: {where}",
            f"`{TOKENIZER}/`: its tokenizer as it was used here; transformers 5 loads some bases with another one",
            "`serve.sh`: starts vLLM's server",
            "`recipe.toml`: every setting; `manifest.json`: recipe, versions, machines; `stages/export.json`: digests",
        ]
        yield "## Files\n\n" + "\n".join(f"- {line}" for line in files)


def hub_data_sets(sources: str) -> Iterator[str]:
    """Yield the Hub's names of data sets, as far as sources have any: `math-500` is `HuggingFaceH4/MATH-500`."""
    for source in parse_sources(sources):
        known = known_name(source.name)
        if known is not None and (on_hub := KNOWN_SETS[known].hub):
            yield parse_sources(on_hub)[0].name
        elif known is None and source.name.startswith("hub:"):
            yield source.name.removeprefix("hub:")


def _is_shown(block: Block) -> bool:
    return isinstance(block, Table) and block.name in _SHOWN
