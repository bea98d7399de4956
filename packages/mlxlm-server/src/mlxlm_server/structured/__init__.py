"""Answers of a given form: grammars that say which tokens may come next, through llguidance.

`Grammar` says what an answer must look like, `Grammars` compiles it for a tokenizer, and
`GrammarConstraint` follows one answer of mlxlm-generate's batch engine; these three need no
server. `fields` reads what requests ask for, and `constrain` makes of it what
`Server.begin(constraint=…)` takes: every dialect goes through these two.
"""
