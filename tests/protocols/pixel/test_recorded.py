"""What `karat paper 004` says when no run is named: the runs on CIFAR-10 and on the grid that ship with Karat."""

from karat.protocols.paper import paper, recorded
from karat.protocols.pixel.analysis import Scored
from karat.results.run import load_run

RESNET, CLEAN = "pixelnet@cifar10_resnet_small", "pixelnet@cifar10_resnet20_clean"


def test_the_recorded_run_answers_the_paper():
    shown = paper("004")
    by_text = {claim.text: claim for claim in shown.claims}
    assert by_text[f"{RESNET}: trained on the shortcut, it is right with it and fails without it"].verdict == "agree"
    assert by_text[f"{CLEAN}: trained on clean images, it does not notice the shortcut"].where == "Table 2"
    flagged = [claim for claim in shown.claims if claim.because.startswith("flagged")]
    assert {claim.text.partition(": ")[2] for claim in flagged if RESNET in claim.text} == {
        "DeepLift and IxG have the same areas to three decimals",
        "GBP and Deconvnet have the same areas to three decimals",
    }
    assert [table.title.partition(":")[0] for table in shown.tables][:4] == ["Table 1", "Table 2", "Table 3", "Table 4"]
    five = shown.tables[4]
    assert {"pixel published", "pixel ours", "IDS ours", "SDS ours", "SD ours (grid)"} <= set(five.columns)
    assert [row[0] for row in five.rows] == ["Gradient", "IxG", "Grad-CAM", "IG", "RISE"]


def test_the_truth_of_the_recorded_run_deletes_and_adds_fastest():
    """The paper's sanity check on real images, by the means; what is sure is said by the findings."""
    scored = Scored(load_run(recorded("pixel")))
    means = {metric: scored.wide(RESNET, metric).mean() for metric in ("deletion", "addition", "hit", "weighted_iou")}
    assert means["deletion"].idxmin() == "control/planted_shapley"
    assert means["addition"].idxmax() == "control/planted_shapley"
    assert means["hit"]["control/planted_shapley"] == means["weighted_iou"]["control/planted_shapley"] == 1
    assert scored.accuracy(CLEAN).images == 2000
