"""What SummaryWriter writes, read by TensorBoard's own reader."""

from __future__ import annotations

import io

import facula as fa
import numpy as np
import pytest

tensorboard = pytest.importorskip("tensorboard")

from facula.utils.tensorboard import SummaryWriter  # noqa: E402
from facula.utils.tensorboard._protos import encode_png, layout_of  # noqa: E402
from tensorboard.backend.event_processing import event_accumulator  # noqa: E402


def read(path):
    sizes = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 0)
    reader = event_accumulator.EventAccumulator(str(path), size_guidance=sizes)
    reader.Reload()
    return reader


def tensors(reader, tag):
    return [tensorboard.util.tensor_util.make_ndarray(e.tensor_proto) for e in reader.Tensors(tag)]


def test_numbers(tmp_path):
    with SummaryWriter(str(tmp_path)) as w:
        for step in range(3):
            w.add_scalar("loss", fa.tensor(1.0 / (step + 1)), step, walltime=100.0 + step)
        w.add_scalar("new", 2.5, 1, new_style=True)
        w.add_scalars("pair", {"a": 1, "b": 2}, 5)
        with pytest.raises(ValueError, match="one element"):
            w.add_scalar("loss", fa.ones(2))
    found = read(tmp_path).Scalars("loss")
    assert [(e.step, e.wall_time) for e in found] == [(0, 100.0), (1, 101.0), (2, 102.0)]
    np.testing.assert_allclose([e.value for e in found], [1, 0.5, 1 / 3], rtol=1e-6)
    assert tensors(read(tmp_path), "new")[0] == 2.5
    assert read(tmp_path / "pair_b").Scalars("pair")[0].value == 2


def test_histograms(tmp_path):
    values = np.random.default_rng(0).standard_normal(1000)
    with SummaryWriter(str(tmp_path)) as w:
        w.add_histogram("h", fa.tensor(values), 3)
        w.add_histogram("ten", values, 3, bins=10)
        w.add_histogram("few", values, 3, bins=100, max_bins=20)
        w.add_histogram_raw("raw", 0, 1, 4, 2.0, 1.5, [0.5, 1.0], [3, 1], 3)
        with pytest.raises(ValueError, match="no element"):
            w.add_histogram("h", fa.empty(0))
        with pytest.raises(ValueError, match="finite"):
            w.add_histogram("h", fa.tensor([float("nan")]))
    reader = read(tmp_path)
    for tag in ("h", "ten", "few"):
        h = reader.Histograms(tag)[0].histogram_value
        assert (h.num, h.min, h.max) == (1000, values.min(), values.max())
        assert h.sum == pytest.approx(values.sum()) and h.sum_squares == pytest.approx(
            (values**2).sum()
        )
        assert sum(h.bucket) == 1000 and len(h.bucket) == len(h.bucket_limit)
        below = 0
        for limit, count in zip(h.bucket_limit, h.bucket, strict=True):
            below += count
            assert below == pytest.approx((values < limit).sum(), abs=1)
    assert len(reader.Histograms("few")[0].histogram_value.bucket) <= 21
    assert list(reader.Histograms("raw")[0].histogram_value.bucket) == [3, 1]


def decoded(encoded):
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(encoded)))


def test_images(tmp_path):
    rng = np.random.default_rng(0)
    chw = rng.integers(0, 256, (3, 5, 7), dtype=np.uint8)
    with SummaryWriter(str(tmp_path)) as w:
        w.add_image("chw", fa.tensor(chw), 0)
        w.add_image("hw", fa.tensor(chw[0]).float() / 255, 0, dataformats="HW")
        w.add_images("batch", np.stack([chw, chw, chw]), 0)
        with pytest.raises(ValueError, match="format"):
            w.add_image("bad", chw, 0, dataformats="HW")
    reader = read(tmp_path)
    (one,) = reader.Images("chw")
    assert (one.height, one.width) == (5, 7)
    np.testing.assert_array_equal(decoded(one.encoded_image_string), chw.transpose(1, 2, 0))
    gray = decoded(reader.Images("hw")[0].encoded_image_string)
    assert np.abs(gray[..., 1].astype(int) - chw[0]).max() <= 1
    grid = decoded(reader.Images("batch")[0].encoded_image_string)
    assert grid.shape == (10, 14, 3)
    np.testing.assert_array_equal(grid[5:, :7], chw.transpose(1, 2, 0))
    assert not grid[5:, 7:].any()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_of_any_channels(channels):
    array = np.random.default_rng(channels).integers(0, 256, (3, 4, channels), dtype=np.uint8)
    np.testing.assert_array_equal(decoded(encode_png(array)).reshape(array.shape), array)
    assert layout_of(array, "HWC").shape[:2] == (3, 4)


def test_figures(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = pyplot.figure(figsize=(2, 1), dpi=50)
    with SummaryWriter(str(tmp_path)) as w:
        w.add_figure("f", figure)
    (one,) = read(tmp_path).Images("f")
    assert (one.height, one.width) == (50, 100)


def test_sound_and_text(tmp_path):
    import wave

    wave_form = np.sin(np.arange(800) / 10)
    with SummaryWriter(str(tmp_path)) as w:
        w.add_audio("a", fa.tensor(wave_form).unsqueeze(0), sample_rate=8000)
        w.add_text("t", "**bold**", 7)
    reader = read(tmp_path)
    (one,) = reader.Audio("a")
    with wave.open(io.BytesIO(one.encoded_audio_string)) as sound:
        assert sound.getframerate() == 8000 and sound.getnframes() == 800
        samples = np.frombuffer(sound.readframes(800), "<i2") / 32767
    np.testing.assert_allclose(samples, wave_form, atol=1e-4)
    assert tensors(reader, "t/text_summary")[0].tolist() == [b"**bold**"]


def test_precision_and_recall(tmp_path):
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, 200), rng.random(200)
    with SummaryWriter(str(tmp_path)) as w:
        w.add_pr_curve("pr", fa.tensor(truth), fa.tensor(scores), 0, num_thresholds=11)
    (data,) = tensors(read(tmp_path), "pr")
    for i, limit in enumerate(np.arange(11) / 10):
        chosen = np.floor(scores * 10) >= i
        tp, fp = (truth[chosen] == 1).sum(), (truth[chosen] == 0).sum()
        assert (data[0, i], data[1, i]) == (tp, fp), limit
        assert data[3, i] == truth.sum() - tp and data[2, i] == (truth == 0).sum() - fp
        if tp + fp:
            assert data[4, i] == pytest.approx(tp / (tp + fp))
        assert data[5, i] == pytest.approx(tp / truth.sum())


def test_hyperparameters(tmp_path):
    from tensorboard.plugins.hparams import metadata

    values = {"lr": 0.1, "name": "a", "flag": True, "none": None}
    with SummaryWriter(str(tmp_path)) as w:
        w.add_hparams(values, {"loss": 0.5}, {"name": ["a", "b"]}, run_name="run")
        with pytest.raises(ValueError, match="value of lr"):
            w.add_hparams({"lr": [1]}, {})
    reader = read(tmp_path / "run")
    assert reader.Scalars("loss")[0].value == 0.5
    plugin = reader.PluginTagToContent(metadata.PLUGIN_NAME)
    start = metadata.parse_session_start_info_plugin_data(plugin[metadata.SESSION_START_INFO_TAG])
    assert start.hparams["lr"].number_value == 0.1 and start.hparams["flag"].bool_value
    experiment = metadata.parse_experiment_plugin_data(plugin[metadata.EXPERIMENT_TAG])
    assert [i.name for i in experiment.hparam_infos] == ["lr", "name", "flag"]
    assert list(experiment.hparam_infos[1].domain_discrete) == ["a", "b"]


def test_points_for_the_projector(tmp_path):
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    points = np.arange(12.0).reshape(4, 3)
    with SummaryWriter(str(tmp_path)) as w:
        w.add_embedding(
            fa.tensor(points), list("abcd"), np.zeros((4, 1, 2, 2), np.uint8), 3, tag="x"
        )
        w.add_embedding(points, [["a", 1]] * 4, metadata_header=["l", "n"], tag="y")
        with pytest.raises(ValueError, match="labels"):
            w.add_embedding(points, ["a"])
    text = (tmp_path / "projector_config.pbtxt").read_text()
    config = text_format.Parse(text, ProjectorConfig())
    one, two = config.embeddings
    np.testing.assert_array_equal(np.loadtxt(tmp_path / one.tensor_path), points)
    assert (tmp_path / one.metadata_path).read_text().split() == list("abcd")
    assert list(one.sprite.single_image_dim) == [2, 2]
    assert (tmp_path / two.metadata_path).read_text().splitlines()[0] == "l\tn"


def test_charts_of_several_scalars(tmp_path):
    with SummaryWriter(str(tmp_path)) as w:
        w.add_custom_scalars_multilinechart(["a", "b"], "c", "t")
    assert "custom_scalars__config__" in read(tmp_path).Tags()["tensors"]


def test_files_close_and_open_again(tmp_path, monkeypatch):
    w = SummaryWriter(str(tmp_path), filename_suffix=".end")
    w.add_scalar("a", 1, 0)
    w.close()
    w.add_scalar("a", 2, 1)
    w.flush()
    files = list(tmp_path.iterdir())
    assert all(f.name.endswith(".end") for f in files)
    assert [e.value for e in read(tmp_path).Scalars("a")] == [1, 2]
    w.close()
    later = SummaryWriter(str(tmp_path), purge_step=1)
    later.add_scalar("a", 5, 1)
    later.close()
    assert [e.value for e in read(tmp_path).Scalars("a")] == [1, 5]
    monkeypatch.chdir(tmp_path)
    assert SummaryWriter(comment="-mine").log_dir.endswith("-mine")


def test_what_is_not_there_says_so(tmp_path):
    with SummaryWriter(str(tmp_path)) as w:
        with pytest.raises(NotImplementedError, match="summary"):
            w.add_graph(None)
        with pytest.raises(NotImplementedError, match="add_images"):
            w.add_video("v", None)


def test_summaries_by_themselves(tmp_path):
    from facula.utils.tensorboard import summary

    with SummaryWriter(str(tmp_path)) as w:
        to = w._get_file_writer()
        to.add_summary(summary.scalar("loss", fa.tensor(0.25)), 3)
        to.add_summary(summary.text("said", "word"))
        to.add_summary(summary.histogram_raw("h", 0.0, 2.0, 3, 3.0, 5.0, [1.0, 2.0], [1.0, 2.0]))
        to.add_summary(summary.image("half", np.ones((1, 3, 2, 4)), rescale=0.5))
        for record in summary.hparams({"lr": 0.1}, {"loss": -1}):
            to.add_summary(record, 3)
    found = read(tmp_path)
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(3, 0.25)]
    assert tensors(found, "said/text_summary")[0].reshape(-1)[0] == b"word"
    assert list(found.Histograms("h")[0].histogram_value.bucket) == [1.0, 2.0]
    assert found.Images("half")[0].width == 4
    start = found.SummaryMetadata("_hparams_/session_start_info")
    assert start.plugin_data.plugin_name == "hparams"
