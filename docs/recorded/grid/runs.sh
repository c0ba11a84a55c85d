#!/bin/sh
# The runs behind the records of grid, synergy, audit and dose, thinned to two or three CPU hours, in order of value.
#
#     sh docs/recorded/grid/runs.sh [WORKERS]     # killed and started again, it goes on
#
# Then, for each: python docs/recorded/make.py src/karat/recorded/grid runs/record-grid runs/record-modality \
#   runs/record-interactions runs/record-asking   (synergy, audit and dose from their own), and docs/recorded/fill.py.
set -e
workers=${1:-2}
twins='gridnet.pure,gridnet.spur,gridvlm.pure,gridvlm.spur'
all="models=[$twins,{name: gridprog.pure, cell: 16},{name: gridprog.spur, cell: 16}]"
six='[D1_M_F0_d0.3, D2_M_F0_d0.3, D2_M_F0_d0.7, D1_SO_F1_d0.3, D2_CMP_F0_d0.3, D1_REL_F0_d0.3]'
few="{name: grid, order: bucket, per_bucket: 6, cell: 16, buckets: $six, mode: "
shuffled='{name: randomised, of: gridnet.pure, how: cascading, share: 1.0},{name: randomised, of: gridnet.pure, how: cascading, share: 0.25},{name: randomised, of: gridnet.pure, how: independent, share: 0.5}'
blocks='modality/emap,{name: modality/emap, value: probability},modality/pid,modality/intershap,modality/harsanyi'

go() {
  spec=$1 name=$2
  shift 2
  karat run "$spec" --workers "$workers" --out "runs/record-$name" "$@"
}
# methods of one sample at 12 a bucket; those of a set of samples in blocks of 25
go grid-full grid --set datasets.0.per_bucket=12 --set datasets.1.per_bucket=12 --set shard_size=12 --set batch_size=12 \
  --set "$all" --set "skip=[{model: '*.pure*', dataset: 'grid.spur*'},{explainer: 'modality/*'}]"
go grid-full modality --set datasets.0.per_bucket=25 --set datasets.1.per_bucket=25 --set shard_size=25 \
  --set batch_size=25 --set "$all" --set "explainers=[$blocks]"
go grid-interactions interactions --set "$all" --set "datasets=[$few pure}, $few spur}]"
go grid-asking asking --set "$all" --set "datasets=[$few pure}, $few spur}]"
go synergy-grid synergy
go audit-full audit --set "models=[$twins,$shuffled]"
go grid-dose dose
