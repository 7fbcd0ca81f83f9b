"""Projects, people, events and names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The first tables."""
    op.create_table(
        "projects",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("rows", sa.String(64), nullable=False, comment="fingerprint of the rows"),
        sa.Column("created", sa.String(40), nullable=False),
    )
    op.create_table(
        "people",
        sa.Column("project", sa.String(40), sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("since", sa.String(40), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("project", sa.String(40), sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("place", sa.Integer, nullable=False, comment="in the log of the project, from 0"),
        sa.Column("person", sa.String(200), nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("ticket", sa.String(80)),
        sa.Column("body", sa.JSON, nullable=False, comment="the event as in a record of spherepair ask"),
        sa.Column("note", sa.JSON, comment="what a gesture took back"),
        sa.UniqueConstraint("project", "place"),
        sa.UniqueConstraint("project", "ticket"),
        sa.ForeignKeyConstraint(["project", "person"], ["people.project", "people.name"]),
    )
    op.create_table(
        "names",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("project", sa.String(40), sa.ForeignKey("projects.id"), nullable=False, index=True),
        sa.Column("group_id", sa.String(80), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("person", sa.String(200), nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["project", "person"], ["people.project", "people.name"]),
    )
