"""A report on a fitted model as one HTML file that needs nothing else."""

from spherepair.report.building import Report, ReportOptions, build_report
from spherepair.report.rendering import render_report, write_report

__all__ = ["Report", "ReportOptions", "build_report", "render_report", "write_report"]
