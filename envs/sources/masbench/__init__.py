"""MASBench: problems whose depth, horizon, breadth, parallelism and robustness are set one by one.

A problem is a dependency graph of sub-tasks (`graph`); everything else follows from it. It is drawn in steps: which
sub-task needs which (`drafts`), what they are called (`naming`), with which numbers (`components`), the whole with its
notes (`generate`, `mistakes`), and the sentences (`text`). The `solver` shares none of this and reads only the text;
`check_dataset` does so for many. `tasks` makes tasks, whose verdict is in `world`; `sets` has the named sets,
`source` the task sources, `rows` reads the public data set, and `figure` draws a graph.
"""
