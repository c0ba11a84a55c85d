#!/bin/sh
# Trains what is missing of the classifiers of seeds.yaml, one after the other: killed and started again, it goes on.
# From the directory that holds data/cifar-10-batches-bin; seed 0 on leaves ships with Karat. On one core of 2026 a
# ResNet takes about a minute and a half of CPU time, a ViT three to four.
set -e
here=$(dirname "$0")
for model in "cnn 1" "cnn 2" "cifar10_resnet_small 0" "cifar10_resnet_small 1" "cifar10_resnet_small 2" \
    "vit 1" "vit 2" "cifar10_vit_small 0" "cifar10_vit_small 1" "cifar10_vit_small 2"; do
  recipe=${model% *} seed=${model#* }
  name=${recipe}_s$seed
  [ -f "$here/weights/$name.safetensors" ] && continue
  trained=checkpoints/pixelnet.$name/pixelnet.$name.safetensors
  [ -f "$trained" ] || karat train pixel "$recipe" --set "name=$name" --set "seed=$seed" --set "shortcut_seed=$seed"
  python "$here/keep.py" "$trained"
done
