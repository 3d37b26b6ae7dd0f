"""`SummaryWriter`: what TensorBoard shows, written to event files."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from facula.utils.tensorboard import _protos as protos

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One event file.

    Args:
        log_dir: its folder, made if it is not there.
        max_queue, flush_secs: how many records, and for how long, are held before they are written.
        filename_suffix: the end of its name.
    """

    def __init__(
        self, log_dir: str, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self._dir = os.fspath(log_dir)
        self.event_writer = EventFileWriter(self._dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Its folder."""
        return self._dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Add a record."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add what a function of this package made."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what is held."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what is held, and end."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on after `close`."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes scalars, images, histograms and more to a folder that TensorBoard shows.

    Args:
        log_dir: the folder; by default one below "runs" named by time, host and `comment`.
        comment: the end of the default folder's name.
        purge_step: of a run that crashed and goes on: later steps of it are not shown.
        max_queue, flush_secs: how many records, and for how long, are held before they are written.
        filename_suffix: the end of the files' names.

    Every `add_` method takes `global_step` and `walltime`, seconds since 1970, now by default.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self._writer()

    def _writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._file(self.log_dir)
            if self.purge_step is not None:
                # TensorBoard takes the versions of records that come after it.
                step = self.purge_step
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=start))
                self.purge_step = None
        return self.file_writer

    def _file(self, folder: str) -> FileWriter:
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(
                folder, self.max_queue, self.flush_secs, self.filename_suffix
            )
        return self.all_writers[folder]

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        self._writer().add_summary(summary, step, walltime)

    # ---- numbers

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number, or a tensor of one element."""
        summary = protos.scalar(tag, scalar_value, new_style=new_style, double=double_precision)
        self._add(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers in one chart; each is a run of its own below the folder."""
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = "_".join([main_tag.replace("/", "_"), tag])
            writer = self._file(os.path.join(self.log_dir, folder))
            writer.add_summary(protos.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A tensor as it is."""
        from tensorboard.util.tensor_util import make_tensor_proto

        proto = make_tensor_proto(protos.array_of(tensor))
        summary = protos.Summary(value=[protos.Summary.Value(tag=tag, tensor=proto)])
        self._add(summary, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed.

        Args:
            bins: "tensorflow" for bounds that grow by a tenth, or what `np.histogram` takes.
            max_bins: neighbours are joined until there are no more.
        """
        self._add(protos.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that is known: upper bounds of the bins, and how many are in each."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts): they are "
                f"{len(bucket_limits)} and {len(bucket_counts)}"
            )
        limits, counts = list(bucket_limits), list(bucket_counts)
        summary = protos.histogram_raw(tag, min, max, num, sum, sum_squares, limits, counts)
        self._add(summary, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision over recall, for labels in {0, 1} and probabilities."""
        summary = protos.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(summary, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """A run's hyperparameters and what it came to, as a run below the folder."""
        records = protos.hparams(hparam_dict, metric_dict, hparam_domain_discrete or {})
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        writer = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        for record in records:
            writer.add_summary(record)
        for name, value in metric_dict.items():
            writer.add_summary(protos.scalar(name, value), global_step)
        writer.close()

    def _get_file_writer(self) -> FileWriter:
        """The writer of the events file, as programs written for torch reach it."""
        return self._writer()

    # ---- pictures, sound and text

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image: uint8 in [0, 255] or floats in [0, 1]; `dataformats` names its dims."""
        self._add(protos.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A batch of images as one grid."""
        self._add(protos.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or a list of them side by side; `close` closes them after."""
        import numpy as np

        pictures = []
        for one in figure if isinstance(figure, list) else [figure]:
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            canvas = FigureCanvasAgg(one)
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[..., :3])
            if close:
                import matplotlib.pyplot as plt

                plt.close(one)
        if isinstance(figure, list):
            self.add_images(tag, np.stack(pictures), global_step, walltime, "NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, "HWC")

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Sound in [-1, 1], of shape (1, L)."""
        self._add(protos.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Markdown."""
        self._add(protos.text(tag, text_string), global_step, walltime)

    # ---- points in space, charts

    def add_embedding(
        self,
        mat: Any,
        metadata: list[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: list[str] | None = None,
    ) -> None:
        """Points for the projector.

        Args:
            mat: (N, D).
            metadata: N labels; lists of them with `metadata_header`.
            label_img: N square images (N, C, H, W).
        """
        import numpy as np

        points = protos.array_of(mat)
        if points.ndim != 2:
            raise ValueError(
                f"mat should be 2D, where mat.size(0) is the number of data points; "
                f"it is {points.shape}"
            )
        step = 0 if global_step is None else global_step
        sub = os.path.join(f"{int(step):05d}", *tag.split("/"))
        folder = os.path.join(self.log_dir, sub)
        os.makedirs(folder, exist_ok=True)
        names = metadata
        if names is not None and len(names) != len(points):
            raise ValueError(f"#labels should equal with #data points: {len(names)}, {len(points)}")
        with open(os.path.join(folder, "tensors.tsv"), "w", encoding="utf-8") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in points.tolist())
        if names is not None:
            rows = ["\t".join(map(str, r)) if metadata_header else str(r) for r in names]
            head = ["\t".join(metadata_header)] if metadata_header else []
            with open(os.path.join(folder, "metadata.tsv"), "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in head + rows)
        sprite = None
        if label_img is not None:
            images = protos.array_of(label_img)
            if images.shape[0] != len(points) or images.shape[2] != images.shape[3]:
                raise ValueError(
                    "label_img has a square image for each point; its shape is "
                    f"{images.shape}, there are {len(points)} points"
                )
            grid = protos.layout_of(images, "NCHW")
            if grid.dtype != np.uint8:
                grid = (grid * 255.0).clip(0, 255).astype(np.uint8)
            with open(os.path.join(folder, "sprite.png"), "wb") as picture:
                picture.write(protos.encode_png(grid))
            sprite = (f"{sub}/sprite.png", images.shape[3], images.shape[2])
        entry = protos.projector_text(
            f"{tag}:{int(step):05d}",
            f"{sub}/tensors.tsv",
            f"{sub}/metadata.tsv" if names is not None else None,
            sprite,
        )
        path = os.path.join(self.log_dir, "projector_config.pbtxt")
        with open(path, "a", encoding="utf-8") as file:
            file.write(entry)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Charts: {category: {chart: ["Multiline" or "Margin", [tags]]}}."""
        self._add(protos.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of several scalars."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of a scalar between two others: tags of value, lower, upper."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_graph(self, model: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "add_graph() is not supported, since nothing records the graph of a model; "
            "add_text(tag, str(facula.nn.utils.summary(model, input))) shows its layers"
        )

    def add_video(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("add_video() is not supported; add_images() shows the frames")

    def add_mesh(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("add_mesh() is not supported; add_embedding() shows points")

    # ---- files

    def flush(self) -> None:
        """Write what is held."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what is held, and end; a later `add_` opens a new file."""
        for writer in self.all_writers.values():
            writer.close()
        self.all_writers, self.file_writer = {}, None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
