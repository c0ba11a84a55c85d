"""`too_small_budgets`: explainers whose budget cannot cover the players of the data, told before a run fails."""

from __future__ import annotations

from karat.engine.plan import Plan
from karat.explainers.coalitional import Coalitional, player_count
from karat.kernel.errors import KaratError
from karat.kernel.registry import label
from karat.kernel.roles import ChecksBudget, FetchesWeights, plays
from karat.probe.session import Session


def too_small_budgets(planned: Plan) -> list[str]:
    """One sentence for each model × dataset × explainer that would refuse a sample of the first shard.

    How many players a sample has is known by its model (patches) and its words, so models with such explainers are
    loaded; they are not run. Those whose weights are still to be fetched are passed over.

    Args:
        planned: a resolved spec (`karat.engine.plan.plan`).

    Returns:
        Reasons with the players, the budget and the least budget that would do; empty where every budget will do.

    Example:
        >>> from karat.engine.plan import plan
        >>> from karat.kernel.spec import Spec
        >>> spec = Spec.model_validate({"karat": 1, "name": "small", "protocol": "localization", "limit": 1,
        ...     "models": ["gridprog.pure"], "explainers": [{"name": "shapley/kernel_shap", "budget": 10}],
        ...     "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 1}]})
        >>> print(*too_small_budgets(plan(spec)))  # doctest: +ELLIPSIS
        gridprog.pure × shapley/kernel_shap(budget=10) on ...: 36 visual and ... need a budget of ... or more; got 10.
    """
    reasons = []
    for model, recipe in enumerate(planned.models):
        mine = [job for job in planned.grid if job.model == model]
        jobs = [job for job in mine if job.start == min(one.start for one in mine if one.dataset == job.dataset)]
        wanted = [(job, k) for job in jobs for k in job.explainers if plays(planned.explainers[k], ChecksBudget)]
        if not wanted or (plays(recipe, FetchesWeights) and recipe.to_fetch() is not None):
            continue
        loaded = recipe.load()
        for job, k in wanted:
            explainer, dataset = planned.explainers[k], planned.datasets[job.dataset]
            samples = dataset.load(job.start, job.stop)
            session = Session(loaded, samples, [sample.answer or "" for sample in samples], planned.spec.seed)
            if (reason := _first_refusal(session, explainer)) is not None:
                reasons.append(f"{label(recipe)} × {label(explainer)} on {label(dataset)}: {reason}")
    return reasons


def _first_refusal(session: Session, explainer: object) -> str | None:
    """The reason of the first sample that is refused; None where all that can be played are served.

    A sample that cannot be played at all (no regions for objects, say) is one failed row and no fault of the spec,
    unless it is so with every sample.
    """
    if not plays(explainer, ChecksBudget) or not isinstance(explainer, Coalitional):
        return None
    budgeted: ChecksBudget = explainer
    played, unplayable = False, None
    for i in range(len(session.samples)):
        try:
            players = player_count(session, i, explainer)
        except KaratError as error:
            unplayable = str(error)
            continue
        if (reason := budgeted.refuses(*players)) is not None:
            return reason
        played = True
    return None if played else unplayable
