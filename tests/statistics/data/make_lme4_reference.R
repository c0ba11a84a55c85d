# Makes the designs (CSV) and the lme4 fits (lme4_reference.json) that test_mixed_model.py compares with.
# Debian: apt-get install r-cran-lme4 r-cran-jsonlite; then, in this folder: Rscript make_lme4_reference.R
suppressPackageStartupMessages({library(lme4); library(jsonlite)})

design <- function(instances, models, datasets, explainers, sd, seed, keep = 1, scale = 1) {
  set.seed(seed)
  d <- expand.grid(explainer = sprintf("e%d", seq_len(explainers)), model = sprintf("m%d", seq_len(models)),
                   instance = sprintf("i%03d", seq_len(instances)))
  number <- as.integer(d$instance)
  set <- (number - 1) %% datasets + 1
  d$dataset <- sprintf("d%d", set)
  d$depth <- number %% 4 + 1
  effect <- 0.03 * (as.integer(d$explainer) - 1)
  d$score <- scale * (0.2 + effect + 0.01 * d$depth + rnorm(instances, 0, sd[1])[number] +
    rnorm(models, 0, sd[2])[as.integer(d$model)] + rnorm(datasets, 0, sd[3])[set] + rnorm(nrow(d), 0, sd[4]))
  d$score <- signif(d$score, 8)
  d[runif(nrow(d)) < keep, ]
}

crossed <- "score ~ explainer + (1|instance) + (1|model) + (1|dataset)"
cases <- list(
  balanced = list(design(24, 3, 3, 5, c(.08, .06, .05, .1), 1), crossed),
  unbalanced = list(design(40, 3, 4, 5, c(.08, .05, .08, .1), 2, keep = .45), crossed),
  singular = list(design(20, 3, 3, 5, c(.08, .06, 0, .1), 3), crossed),
  unbalanced_singular = list(design(12, 3, 3, 4, c(0, 0, 0, .1), 40, keep = .8), crossed),
  strong = list(design(30, 4, 3, 4, c(2, 1, 1.5, .02), 5, keep = .7, scale = 100), crossed),
  covariate = list(design(30, 3, 3, 4, c(.1, .05, .05, .1), 6, keep = .6),
                   "score ~ explainer + depth + (1|instance) + (1|model)"),
  one_factor = list(design(25, 1, 1, 6, c(.1, 0, 0, .1), 7, keep = .8), "score ~ explainer + (1|instance)"),
  grand_mean = list(design(25, 5, 1, 2, c(.1, .1, 0, .1), 8), "score ~ 1 + (1|instance) + (1|model)")
)

summarise <- function(fit) {
  vc <- as.data.frame(VarCorr(fit))
  b <- summary(fit)$coefficients
  messages <- as.character(unlist(fit@optinfo$conv$lme4$messages))
  list(criterion = if (isREML(fit)) REMLcrit(fit) else -2 * as.numeric(logLik(fit)),
       coef = setNames(as.list(b[, 1]), rownames(b)), se = setNames(as.list(b[, 2]), rownames(b)),
       variance = setNames(as.list(vc$vcov), vc$grp),
       random = lapply(ranef(fit), function(f) head(setNames(as.list(f[, 1]), rownames(f)), 5)),
       singular = isSingular(fit), messages = as.list(messages))
}

reference <- list(version = as.character(packageVersion("lme4")), cases = list())
tight <- lmerControl(optimizer = "nloptwrap", calc.derivs = TRUE,
                     optCtrl = list(xtol_abs = 1e-12, xtol_rel = 1e-12, ftol_abs = 1e-14, maxeval = 20000))
for (name in names(cases)) {
  file <- paste0(name, ".csv")
  write.csv(cases[[name]][[1]], file, row.names = FALSE, quote = FALSE)
  d <- read.csv(file)
  entry <- list(file = file, formula = cases[[name]][[2]])
  for (reml in c(TRUE, FALSE)) {
    label <- if (reml) "reml" else "ml"
    f <- as.formula(entry$formula)
    entry[[label]] <- list(
      default = suppressMessages(suppressWarnings(summarise(lmer(f, d, REML = reml)))),
      tight = suppressMessages(suppressWarnings(summarise(lmer(f, d, REML = reml, control = tight)))))
  }
  reference$cases[[name]] <- entry
}
write_json(reference, "lme4_reference.json", auto_unbox = TRUE, digits = 15, pretty = TRUE)
