"""Build Grafana's JSON with the Grafana Foundation SDK: `python -m deploy.grafana.dashboards` writes dashboards/*.json."""

from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    AxisPlacement,
    GraphTresholdsStyleMode,
    HeatmapCellLayout,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.boards import call_quality, capacity, speculation
from deploy.grafana.boards.panel import Board, Panel, Query

BOARDS = (call_quality.BOARD, speculation.BOARD, capacity.BOARD)
FOLDER = Path(__file__).with_name("dashboards")
_SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")
_HEIGHT = 8
AnyPanel = timeseries.Panel | heatmap.Panel | stat.Panel


def rendered(board: Board) -> str:
    """The dashboard as Grafana imports it."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["voicepace"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("job")
            .label("Job")
            .datasource(_SOURCE)
            .query("label_values(voicepace_engine_up, job)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .multi(True)
            .all_value(".+")
        )
    )
    number = 0
    for title, panels in board.rows:
        number += 1
        built.with_row(dashboard.Row(title).id(number))
        for panel in panels:
            number += 1
            built.with_panel(_panel(panel, number))
    return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


def _panel(panel: Panel, number: int) -> AnyPanel:
    built = _lines(panel) if panel.kind == "lines" else _heatmap(panel) if panel.kind == "heatmap" else _number(panel)
    built.id(number).title(panel.question).description(panel.description).unit(panel.unit).datasource(_SOURCE)
    built.height(_HEIGHT).span(panel.width)
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        built.with_target(_target(query, letter, panel))
    return built


def _target(query: Query, letter: str, panel: Panel) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter)
    if panel.kind == "heatmap":
        return target.range().format(PromQueryFormat.HEATMAP)
    return target.instant() if panel.kind == "number" else target.range()


def _lines(panel: Panel) -> timeseries.Panel:
    built = timeseries.Panel().line_width(1).fill_opacity(5).axis_soft_min(0)
    built.legend(
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    if panel.line is not None:
        built.thresholds(_red_from(panel.line))
        built.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.LINE))
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        if query.right_axis:
            placed = DynamicConfigValue(id_val="custom.axisPlacement", value=AxisPlacement.RIGHT.value)
            measured = DynamicConfigValue(id_val="unit", value=panel.right_unit)
            built.override_by_query(letter, [placed, measured])
    return built


def _heatmap(panel: Panel) -> heatmap.Panel:
    return (
        heatmap.Panel()
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Viridis").steps(64))
        .y_axis(heatmap.YAxisConfig().unit(panel.unit))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(HeatmapCellLayout.LE))
        .cell_gap(0)
    )


def _number(panel: Panel) -> stat.Panel:
    return (
        stat.Panel()
        .no_value("none")
        .thresholds(
            dashboard.ThresholdsConfig()
            .mode(ThresholdsMode.ABSOLUTE)
            .steps([Threshold(value=None, color="red"), Threshold(value=0.0, color="orange"), Threshold(0.25, "green")])
        )
    )


def _red_from(value: float) -> dashboard.ThresholdsConfig:
    steps = [Threshold(value=None, color="green"), Threshold(value=value, color="red")]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def main() -> None:
    """Write every dashboard."""
    for board in BOARDS:
        (FOLDER / f"{board.uid}.json").write_text(rendered(board))


if __name__ == "__main__":
    main()
