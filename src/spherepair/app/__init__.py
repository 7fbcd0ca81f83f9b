"""``spherepair label``: a server and a page on which people group their rows.

Answers are an append-only log in a database (:mod:`~spherepair.app.database`); everything else follows from
it. Rows lie in the folder of their project (:mod:`~spherepair.app.project_rows`), models are fitted by a
process of their own (:mod:`~spherepair.app.worker`), and an :class:`~spherepair.asking.Interview` chooses the
questions.
"""
