"""What a study is, as a person writes it: the sections of study.toml, read, checked and completed.

`Definition` is the whole of it and what a store keeps; its sections are small models with defaults. An unknown key, a wrong type
or a value that breaks a rule is a `ConfigError` that names the place, the rule and the remedy. Options that belong to another
room (of a surrogate, of a simulator, of an axis) are handed through to it and checked there.
"""

from hyperleaf.config.definition import Definition, validate
from hyperleaf.config.reading import domain_from_inputs, from_sections, parse_toml, read_text, read_toml
from hyperleaf.config.sections import ConfigError, StopSection

__all__ = [
    "ConfigError",
    "Definition",
    "StopSection",
    "domain_from_inputs",
    "from_sections",
    "parse_toml",
    "read_text",
    "read_toml",
    "validate",
]
