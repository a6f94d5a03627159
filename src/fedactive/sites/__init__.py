"""The field: the laboratory's code between real sites, with people who label in a browser at each of them.

    coordinator/   runs a plan: asks the sites, checks what they reply, aggregates, records
    site/          answers for one site: its images, its client, its memory of each run
    labels/        the label store of a site: rounds, people, queues, answers, in SQLite
    page/          the labelling page over that store
    flower/        carries the messages: Flower's processes and records, and the gate before them
    rehearsal.py   all of it on one machine, for the demo and the tests

Coordinator and site know each other by messages.py only. Names, keys, the invitation and the card of the
images are what both sides share. tests/test_imports.py says which room may know which.
"""
