"""Studies over HTTP: pages to watch and answer, an interface for programs, a client with the interface of `Study`.

`studies` keeps studies warm, `watching` notices what anybody writes to them, `operations` lists what the interface offers and
`openapi` describes it, `answers` and `downloads` are what each operation does, `pages` shows people the same, `access` guards all
of it, and `serving` runs it. On the other side `client` asks and tells over the `wire`, and `worker` runs a simulator for it.
`notebook` needs no server.
"""
