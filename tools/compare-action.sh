#!/usr/bin/env bash
# The step of action.yml: compares two runs, writes the job summary, and fails where something is worse.
#
# Inputs come as environment variables and go on as single quoted arguments, so nothing in them is read as code or as
# another option:
#   INPUT_BASE, INPUT_HEAD        two runs: directories or fsspec URLs
#   INPUT_FAIL_IF_WORSE           true or false
#   INPUT_ALL                     true or false: list also what has not changed
#   INPUT_LEVEL, INPUT_TOLERANCE  as in `karat compare`; empty: its defaults
#   INPUT_JUNIT                   a file for JUnit XML; empty: none
#
# Exit codes: 0 nothing is worse, or that was not to fail; 1 worse; 2 the request is at fault; others are Karat's own.
set -euo pipefail

refuse() {
  echo "compare-action: $1" >&2
  exit 2
}

is_true() { # NAME VALUE
  case "$2" in
    true) return 0 ;;
    false) return 1 ;;
    *) refuse "$1 is true or false; got '$2'." ;;
  esac
}

[ -n "${INPUT_BASE:-}" ] || refuse "base is empty: name the run to compare with."
[ -n "${INPUT_HEAD:-}" ] || refuse "head is empty: name the run that may be worse."
fails=no
if is_true fail-if-worse "${INPUT_FAIL_IF_WORSE:-true}"; then fails=yes; fi
options=(--fail-if-worse)
if is_true all "${INPUT_ALL:-false}"; then options+=(--all); fi
if [ -n "${INPUT_LEVEL:-}" ]; then options+=("--level=$INPUT_LEVEL"); fi
if [ -n "${INPUT_TOLERANCE:-}" ]; then options+=("--tolerance=$INPUT_TOLERANCE"); fi
if [ -n "${INPUT_JUNIT:-}" ]; then options+=("--junit=$INPUT_JUNIT"); fi

folder="$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/karat-compare.XXXXXX")"
page="$folder/compare.md"

karat=karat
if ! command -v karat >/dev/null; then
  source="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
  echo "karat is not on the path: installing the version of this action, without PyTorch ..."
  python3 -m venv "$folder/environment"
  "$folder/environment/bin/python" -m pip install --quiet "$source"
  karat="$folder/environment/bin/karat"
fi

# Labels of runs are anybody's text: none of their lines may be taken for a command to the runner.
pause="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
echo "::stop-commands::$pause"
status=0
"$karat" compare "${options[@]}" "--markdown=$page" -- "$INPUT_BASE" "$INPUT_HEAD" || status=$?
echo "::$pause::"

summary="${GITHUB_STEP_SUMMARY:-/dev/null}"
if [ ! -s "$page" ]; then # without a page there was no comparison, whatever the exit code
  echo "## Karat: no comparison was made (exit code $status); the log says why" >>"$summary"
  [ "$status" -gt 1 ] || status=70
  exit "$status"
fi
limit=1000000 # a summary of more than a MiB is thrown away by GitHub
if [ "$(wc -c <"$page")" -le "$limit" ]; then
  cat "$page" >>"$summary"
else
  head -c "$limit" "$page" | sed '$d' >>"$summary"
  printf '\nThe rest does not fit into a summary.\n' >>"$summary"
fi

worse=false
[ "$status" -ne 1 ] || worse=true
{
  echo "worse=$worse"
  echo "markdown=$page"
} >>"${GITHUB_OUTPUT:-/dev/null}"
if [ "$status" -eq 1 ] && [ "$fails" = no ]; then status=0; fi
exit "$status"
