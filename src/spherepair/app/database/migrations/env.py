"""Runs the migrations on the connection that :func:`~spherepair.app.database.open_database` hands over."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
