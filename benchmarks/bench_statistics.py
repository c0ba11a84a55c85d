"""The mixed model beside its peers, in one run: R's lme4 on 100,000 rows, statsmodels on 2,000. Answers first.

    python benchmarks/bench_statistics.py [--skip-statsmodels]

lme4 runs where Rscript with lme4 is found (Debian: r-cran-lme4); statsmodels where it is installed. Times are of the
fit alone, in this process or in R's; the frame is built and read before.
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
import pandas as pd

from assay.statistics import MixedModel, mixed_model

RANDOM = ("instance", "model", "dataset")
R_SCRIPT = """
suppressPackageStartupMessages(library(lme4))
file <- commandArgs(trailingOnly = TRUE)[1]
d <- read.csv(file, stringsAsFactors = TRUE)
seconds <- system.time(fit <- suppressMessages(suppressWarnings(
  lmer(score ~ explainer + (1|instance) + (1|model) + (1|dataset), d))))[["elapsed"]]
v <- as.data.frame(VarCorr(fit)); b <- summary(fit)$coefficients
number <- function(x) paste(sprintf("%.17g", x), collapse = ", ")
cat(sprintf('{"seconds": %s, "criterion": %s, "coef": [%s], "se": [%s], "variance": {%s}}', number(seconds),
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


def timed(frame: pd.DataFrame, repeats: int) -> tuple[MixedModel, float]:
    """The fit and the median of `repeats` times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fit = mixed_model(frame, "score", "explainer", RANDOM)
        times.append(time.perf_counter() - start)
    return fit, float(np.median(times))


def against_lme4() -> None:
    frame = scores(3700, 3, 9, 3, seed=0)
    fit, ours = timed(frame, 5)
    print(f"mixed model, {len(frame):,} rows, 3,700 instances: {ours:.3f} s, {fit.evaluations} evaluations")
    program = shutil.which("Rscript")
    if program is None:
        print("  lme4: skipped, no Rscript on the path")
        return
    with tempfile.TemporaryDirectory() as folder:
        csv, script = Path(folder, "scores.csv"), Path(folder, "fit.R")
        frame.to_csv(csv, index=False, float_format="%.17g")
        script.write_text(R_SCRIPT)
        done = subprocess.run([program, str(script), str(csv)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  lme4: skipped, R said: {done.stderr.strip().splitlines()[-1]}")
        return
    theirs = json.loads(done.stdout)
    gap = fit.criterion - theirs["criterion"]
    assert gap <= 1e-6, f"lme4 found a lower criterion by {gap}"
    coef = float(np.abs(fit.coefficients["coef"].to_numpy() - theirs["coef"]).max())
    se = float(np.abs(fit.coefficients["se"].to_numpy()[1:] / theirs["se"][1:] - 1).max())
    assert coef < 1e-5, coef
    assert se < 1e-3, se
    print(f"  lme4: {theirs['seconds']:.2f} s, ratio {theirs['seconds'] / ours:.1f}x")
    print(f"  REML criterion, ours - lme4's: {gap:.2e}; coefficients within {coef:.1e}, SE within {se:.1e} (relative)")
    for column, variance in theirs["variance"].items():
        ratio = variance / fit.variances.loc[column, "variance"]
        print(f"  variance of {column}: ours {fit.variances.loc[column, 'variance']:.6g}, lme4's is {ratio:.4f} of it")


def against_statsmodels() -> None:
    frame = scores(75, 3, 9, 3, seed=1).iloc[:2000]
    fit, ours = timed(frame, 5)
    print(f"mixed model, {len(frame):,} rows, 75 instances: {ours:.4f} s")
    if importlib.util.find_spec("statsmodels") is None:
        print("  statsmodels: skipped, not installed")
        return
    import statsmodels.formula.api as smf  # type: ignore[import-untyped]

    parts = {name: f"0 + C({name})" for name in RANDOM}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = smf.mixedlm("score ~ explainer", frame, groups=np.ones(len(frame)), vc_formula=parts).fit(reml=True)
    seconds = time.perf_counter() - start
    gap = fit.criterion + 2 * theirs.llf
    own_se = fit.coefficients["se"].to_numpy()
    coef = float((np.abs(fit.coefficients["coef"].to_numpy() - theirs.fe_params.to_numpy()) / own_se).max())
    se = float(np.abs(own_se[1:] / theirs.bse_fe.to_numpy()[1:] - 1).max())
    assert gap <= 1e-6, f"statsmodels found a lower criterion by {gap}"
    assert coef < 1e-2, coef  # it stops with the gradient still at 1e-3 or so, hence in standard errors
    assert se < 1e-3, se
    print(f"  statsmodels: {seconds:.1f} s, ratio {seconds / ours:.0f}x")
    print(f"  REML criterion, ours - theirs: {gap:.2e}; coefficients within {coef:.1e} SE, SE within {se:.1e} (relative)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--skip-statsmodels", action="store_true", help="it takes about half a minute")
    options = parser.parse_args()
    against_lme4()
    if not options.skip_statsmodels:
        against_statsmodels()
