"""The mixed model beside its peers, in one run: R's lme4 on 100,000 rows, statsmodels on 2,000. Answers first.

    python benchmarks/bench_statistics.py [--skip-statsmodels]

lme4 runs where Rscript with lme4 is found (Debian: r-cran-lme4); statsmodels where it is installed. Times are CPU
seconds of the fit alone, in this process or in R's; set OMP_NUM_THREADS=1 so that they are those of one core.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from side_by_side import compared, median, size, skipped

from karat.statistics import MixedModel, mixed_model

RANDOM = ("instance", "model", "dataset")
R_SCRIPT = """
suppressPackageStartupMessages(library(lme4))
file <- commandArgs(trailingOnly = TRUE)[1]
d <- read.csv(file, stringsAsFactors = TRUE)
seconds <- system.time(fit <- suppressMessages(suppressWarnings(
  lmer(score ~ explainer + (1|instance) + (1|model) + (1|dataset), d))))
v <- as.data.frame(VarCorr(fit)); b <- summary(fit)$coefficients
number <- function(x) paste(sprintf("%.17g", x), collapse = ", ")
cat(sprintf('{"seconds": %s, "criterion": %s, "coef": [%s], "se": [%s], "variance": {%s}}', number(sum(seconds[1:2])),
  number(REMLcrit(fit)), number(b[, 1]), number(b[, 2]),
  paste(sprintf('"%s": %s', v$grp, sapply(v$vcov, number)), collapse = ", ")))
"""


def scores(instances: int, models: int, explainers: int, datasets: int, seed: int) -> pd.DataFrame:
    """Crossed: every instance (of one dataset) under every model and explainer; effects of the size of fsyn2026's."""
    rng = np.random.default_rng(seed)
    i, m, e = (a.ravel() for a in np.meshgrid(*map(np.arange, (instances, models, explainers)), indexing="ij"))
    d = i % datasets
    score = 0.1 + 0.004 * e + rng.normal(0, 0.1, len(i))
    for codes, levels, sd in ((i, instances, 0.05), (m, models, 0.03), (d, datasets, 0.02)):
        score += rng.normal(0, sd, levels)[codes]
    names = {"explainer": ("e", e), "model": ("m", m), "instance": ("i", i), "dataset": ("d", d)}
    return pd.DataFrame({"score": score, **{k: [f"{p}{c:04d}" for c in codes] for k, (p, codes) in names.items()}})


def timed(frame: pd.DataFrame, repeats: int) -> tuple[MixedModel, list[float]]:
    """The fit and the CPU seconds of every time it was made."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        fit = mixed_model(frame, "score", "explainer", RANDOM)
        times.append(time.process_time() - start)
    return fit, times


def compare(fit: MixedModel, criterion: float, coef: npt.ArrayLike, se: npt.ArrayLike) -> tuple[bool, str]:
    """Ours beside a peer's, intercept included: never above its criterion, the same where it reached the optimum.

    Whether it did, and what there is to say: the time of a fit that stopped short is no measure.
    """
    gap = fit.criterion - criterion
    assert gap <= 1e-6, f"the peer found a lower criterion, by {gap}"
    far = float(np.abs(fit.coefficients["coef"].to_numpy() - np.asarray(coef)).max())
    ratio = np.asarray(se) / fit.coefficients["se"].to_numpy()
    if gap < -1e-4:
        least, most = ratio.min(), ratio.max()
        return False, f"STOPPED SHORT: criterion {-gap:.2g} above ours, its SE {least:.3f} to {most:.3f} of ours"
    assert far < 1e-5, far
    se_off = np.abs(ratio - 1).max()
    assert se_off < 1e-3, ratio
    return True, f"criterion ours - its {gap:.1e}, coefficients within {far:.1e}, SE within {se_off:.1e}"


def against_lme4() -> None:
    frame = scores(size(3700, 200), 3, 9, 3, seed=0)
    fit, taken = timed(frame, 5)
    ours = median(taken)
    print(f"mixed model, {len(frame):,} rows, crossed: {ours:.3f} s, {fit.evaluations} evaluations")
    what = f"mixed model, {len(frame):,} rows"
    program = shutil.which("Rscript")
    if program is None:
        skipped(what, "lme4", "no Rscript on the path")
        return
    with tempfile.TemporaryDirectory() as folder:
        csv, script = Path(folder, "scores.csv"), Path(folder, "fit.R")
        frame.to_csv(csv, index=False, float_format="%.17g")
        script.write_text(R_SCRIPT)
        done = subprocess.run([program, str(script), str(csv)], capture_output=True, text=True, check=False)
    if done.returncode:
        skipped(what, "lme4", f"R said: {done.stderr.strip().splitlines()[-1]}")
        return
    theirs = json.loads(done.stdout)
    reached, verdict = compare(fit, theirs["criterion"], theirs["coef"], theirs["se"])
    print(f"  lme4: {theirs['seconds']:.2f} s, ratio {theirs['seconds'] / ours:.1f}x; {verdict}")
    if reached:
        compared(what, "lme4", taken, [theirs["seconds"]], verdict)
    for column, variance in theirs["variance"].items():
        ratio = variance / fit.variances.loc[column, "variance"]
        print(f"  variance of {column}: ours {fit.variances.loc[column, 'variance']:.6g}, lme4's is {ratio:.4f} of it")


def against_statsmodels() -> None:
    """2,000 rows shaped two ways, with statsmodels' default optimiser and with the two that suit it better."""
    if importlib.util.find_spec("statsmodels") is None:
        skipped("mixed model, 2,000 rows", "statsmodels", "not installed")
        return
    import statsmodels.formula.api as smf  # type: ignore[import-untyped]
    from statsmodels.regression.mixed_linear_model import MixedLMParams  # type: ignore[import-untyped]

    for instances, models, explainers in size(((74, 3, 9), (222, 3, 3)), ((20, 3, 3),)):
        frame = scores(instances, models, explainers, 3, seed=1)
        fit, taken = timed(frame, 9)
        ours = median(taken)
        print(f"mixed model, {len(frame):,} rows, {instances} instances, {explainers} explainers: {ours:.4f} s")
        parts = {name: f"0 + C({name})" for name in RANDOM}
        model = smf.mixedlm("score ~ explainer", frame, groups=np.ones(len(frame)), vc_formula=parts)
        for method in (None, "lbfgs", "powell"):
            before = timed(frame, 3)[1]
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = model.fit(reml=True, method=method)
            seconds = time.process_time() - start
            around = before + timed(frame, 3)[1]
            reached, verdict = compare(fit, -2 * theirs.llf, theirs.fe_params, theirs.bse_fe)
            print(f"  statsmodels, {method or 'default'}: {seconds:.1f} s, ratio {seconds / ours:.0f}x; {verdict}")
            if reached:
                what = f"mixed model, {len(frame):,} rows, {instances} instances"
                compared(what, f"statsmodels, {method or 'default'}", around, [seconds], verdict)
        tau = fit.variances["variance"].loc[list(model.exog_vc.names)].to_numpy()
        here = MixedLMParams.from_components(
            fe_params=fit.coefficients["coef"].to_numpy(), cov_re=np.zeros((0, 0)),
            vcomp=tau / fit.variances.loc["Residual", "variance"],
        )  # fmt: skip
        off = fit.criterion + 2 * model.loglike(here, profile_fe=True)
        assert abs(off) < 1e-6, off
        print(f"  its own likelihood at our optimum differs from ours by {abs(off):.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--skip-statsmodels", action="store_true", help="it takes about a minute")
    options = parser.parse_args()
    against_lme4()
    if not options.skip_statsmodels:
        against_statsmodels()
