"""Compares the type stubs with the module as it was built, and fails where they differ.

For every stub: the same public names on both sides, functions with the same parameters (names,
kinds and defaults), classes with the same methods, properties and setters. Annotations are what
`mypy` checks; this checks that they annotate what is there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

STUBS = ("lycaon._lycaon", "lycaon._functions")
# Names that only the stubs have: types for annotations.
TYPES_ONLY = {"ArrayLike"}
# Special methods that type checkers need to know.
SPECIAL = {"__new__", "__enter__", "__exit__"}

Parameter = tuple[str, str, str]
Function = list[Parameter]


def written(function: ast.FunctionDef, is_method: bool) -> Function:
    """The parameters that a stub says."""
    arguments = function.args
    parameters: Function = []
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        parameters.append((argument.arg, "positional", text(default)))
    if is_method:
        parameters = parameters[1:]
    if arguments.vararg:
        parameters.append((arguments.vararg.arg, "several", ""))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append((argument.arg, "keyword", text(default)))
    return parameters


def text(default: ast.expr | None) -> str:
    return "" if default is None else repr(ast.literal_eval(default))


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "several",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "keywords",
}


def built(function: object, is_method: bool) -> Function:
    """The parameters that the built function has."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        empty = parameter.default is inspect.Parameter.empty
        default = "" if empty else repr(parameter.default)
        parameters.append((parameter.name, KINDS[parameter.kind], default))
    return parameters[1:] if is_method and parameters and parameters[0][0] == "self" else parameters


class Check:
    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.compared = 0

    def names(self, where: str, stub: set[str], module: set[str]) -> None:
        for name in sorted(module - stub):
            self.complaints.append(f"{where}.{name} is not in the stub")
        for name in sorted(stub - module):
            self.complaints.append(f"{where}.{name} is in the stub only")

    def function(self, where: str, stub: Function, there: Function) -> None:
        self.compared += 1
        if stub != there:
            self.complaints.append(f"{where}: the stub says\n    {stub}\n  but it is\n    {there}")

    def module(self, name: str) -> None:
        module = importlib.import_module(name)
        assert module.__file__ is not None
        stub = Path(module.__file__).with_name(f"{name.rpartition('.')[2]}.pyi")
        tree = ast.parse(stub.read_text())
        functions: dict[str, list[ast.FunctionDef]] = {}
        classes: dict[str, ast.ClassDef] = {}
        values: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                classes[node.name] = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                values.add(node.target.id)
        there = {
            key
            for key, value in vars(module).items()
            if (not key.startswith("_") or key == "__version__")
            and not inspect.ismodule(value)
            and getattr(value, "__module__", name) in (name, "lycaon", None)
        }
        private = {key for key in functions if key.startswith("_")}
        self.names(name, {*functions, *classes, *values} - TYPES_ONLY, there | private)
        for key, overloads in functions.items():
            for overload in overloads:
                if hasattr(module, key):
                    found = built(getattr(module, key), False)
                    self.function(f"{name}.{key}", written(overload, False), found)
        for key, node in classes.items():
            if hasattr(module, key):
                self.a_class(f"{name}.{key}", node, getattr(module, key))

    def a_class(self, where: str, stub: ast.ClassDef, there: type) -> None:
        said: dict[str, list[ast.FunctionDef]] = {}
        for node in stub.body:
            if isinstance(node, ast.FunctionDef):
                said.setdefault(node.name, []).append(node)
        members = {
            key for key in vars(there) if not key.startswith("_") or key in SPECIAL
        }
        if "__new__" not in said:
            members.discard("__new__")
        self.names(where, set(said), members)
        for key, overloads in said.items():
            if key not in members:
                continue
            member = vars(there)[key]
            decorators = {ast.unparse(d) for overload in overloads for d in overload.decorator_list}
            is_property = inspect.isgetsetdescriptor(member)
            if is_property != ("property" in decorators):
                self.complaints.append(f"{where}.{key}: a property on one side only")
                continue
            if is_property:
                self.compared += 1
                self.setter(where, key, there, f"{key}.setter" in decorators)
                continue
            is_static = "staticmethod" in decorators
            if is_static != isinstance(member, staticmethod):
                self.complaints.append(f"{where}.{key}: a static method on one side only")
            function = there if key == "__new__" else getattr(there, key)
            for overload in overloads:
                found = built(function, not is_static)
                self.function(f"{where}.{key}", written(overload, not is_static), found)

    def setter(self, where: str, key: str, there: type, said: bool) -> None:
        # Only by trying can a setter of a native class be told from none; groups have some.
        has = False
        if there.__name__ == "Group":
            lycaon = importlib.import_module("lycaon")
            with lycaon.init(lycaon.Config()) as group:
                try:
                    setattr(group, key, getattr(group, key))
                    has = True
                except AttributeError:
                    pass
        if has != said:
            self.complaints.append(f"{where}.{key}: a setter on one side only")


def main() -> int:
    check = Check()
    for name in STUBS:
        check.module(name)
    for complaint in check.complaints:
        print(complaint, file=sys.stderr)
    if check.complaints:
        return 1
    print(f"stubs agree with the module: {check.compared} signatures and properties")
    return 0


if __name__ == "__main__":
    sys.exit(main())
