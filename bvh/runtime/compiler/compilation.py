"""Numba pipelines of kernels: helpers are only lowered, an entry is optimised once, as a whole.

Numba links, optimises and emits machine code for every function that it compiles, so the function
at the end of a chain of thirty calls is optimised thirty times, although only the entry is called
from Python. Here a helper ends as LLVM code; an entry links all that it calls, directly or not, and
is optimised and emitted once, as a translation unit in C is.

All this is internal to Numba: `dispatchers` tests whether it works.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from llvmlite.binding import ModuleRef, ValueRef, newpassmanagers
from numba import _dynfunc
from numba.core import (
    cgutils,
    codegen,
    compiler,
    compiler_machinery,
    event,
    funcdesc,
    ir,
    lowering,
    sigutils,
    typed_passes,
    types,
)
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from bvh.runtime.compiler.code_generator import kernel_context
from bvh.runtime.compiler.code_types import Builder, Type, Value, Values
from bvh.runtime.compiler.front_end import FrontEnd, call_signatures, is_counted

Emitter = Callable[[Builder, Values], Value]

# Longest name of a function: types of nested tuples have thousands of characters.
LONGEST_NAME = 80


class HelperLibrary(codegen.JITCodeLibrary):
    """The code of one helper, simplified function by function, and not emitted."""

    _with_callees: ModuleRef | None = None
    key: str | None = None  # see `stored_helpers`

    def __init__(self, generator: codegen.CPUCodegen, name: str) -> None:
        """Make a library without the empty LLVM module that Numba would make."""
        codegen.CodeLibrary.__init__(self, generator, name)
        self._linking_libraries: list[codegen.CodeLibrary] = []

    def add_llvm_module(self, ll_module: ModuleRef) -> None:
        """Take the code of the helper, simplified."""
        ll_module.data_layout = self._codegen._data_layout
        manager, builder = _simplifier(self._codegen)
        for function in _own_functions(ll_module):
            manager.run(function, builder)
        # A helper has this module only, so nothing is linked here.
        self._final_module = ll_module

    def finalize(self) -> None:
        """End the code without linking, optimising or emitting it, which entries do."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> ModuleRef:
        """Return the helper and all that it calls, for functions compiled by Numba itself."""
        if self._with_callees is None:
            linked = codegen.JITCodeLibrary(self._codegen, self.name)
            linked._final_module.link_in(self._final_module, preserve=True)
            _link_all(linked, self._linking_libraries)
            for function in _own_functions(linked._final_module):
                # Code of users that calls the same helper has it, too: copies are merged.
                if function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
            self._with_callees = linked._final_module
        return self._with_callees


class EntryLibrary(codegen.JITCodeLibrary):
    """The code of an entry and of all that it calls, optimised and emitted together."""

    def _optimize_functions(self, ll_module: ModuleRef) -> None:
        """Do nothing but set the layout of data: the whole is optimised later."""
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link all helpers, optimise the whole, and emit machine code."""
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        public = {function.name for function in _own_functions(self._final_module)}
        _link_all(self, self._linking_libraries)

        def link_others(linkage: str) -> None:
            for function in _own_functions(self._final_module):
                if function.name not in public:
                    function.linkage = linkage

        # Not internal before the optimisation: LLVM would inline long ones with a single caller.
        link_others("linkonce_odr")
        # Numba's cheap passes, which prepare the removal of counts of references, are left out:
        # kernels count few.
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)
        # Functions of the same name in other entries must not replace these.
        link_others("internal")
        self._final_module.verify()
        self._finalize_final_module()


@lru_cache
def _simplifier(
    generator: codegen.CPUCodegen,
) -> tuple[newpassmanagers.FunctionPassManager, newpassmanagers.PassBuilder]:
    """Return passes that shorten helpers, saving more time than they take, and Numba's builder."""
    manager = newpassmanagers.create_new_function_pass_manager()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    return manager, generator._pass_builder()


def _own_functions(module: ModuleRef) -> list[ValueRef]:
    """Return the functions that a module defines, not those that it only declares."""
    return [function for function in module.functions if not function.is_declaration]


def _link_all(library: codegen.CodeLibrary, called: Iterable[codegen.CodeLibrary]) -> None:
    """Link into a library all that it calls: the libraries `called`, and what these call."""
    seen: set[codegen.CodeLibrary] = set()
    waiting, numbas = list(called), []
    while waiting:
        other = waiting.pop()
        if other in seen:
            continue
        seen.add(other)
        if isinstance(other, HelperLibrary):
            waiting.extend(other._linking_libraries)
            library._final_module.link_in(other._final_module, preserve=True)
        else:
            numbas.append(other._get_module_for_linking())
    # Numba's modules follow, because LLVM links only those of their functions that are called by
    # what is linked before.
    for module in numbas:
        library._final_module.link_in(module, preserve=True)


def _short_name(name: str) -> str:
    """Return a name if it is short, else its beginning and a hash of it, which is unique."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:40]}_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


class KernelLower(lowering.Lower):
    """Numba's lowering without steps that kernels do not need.

    Variables whose types count no references are neither counted nor cleared: Numba takes tuples
    apart each time to look for references, which was most of the code that LLVM had to remove.
    """

    def init(self) -> None:
        super().init()
        self.operations: dict[tuple[object, ...], Emitter] = {}  # by operator and operand types

    def lower(self) -> None:
        """Lower the function, and free the code that only lowering needs."""
        super().lower()
        # Break reference cycles, which the garbage collector would take half a second to find.
        for function in self.module.functions:
            for block in function.blocks:
                block.instructions.clear()
                block.terminator = None
            function.blocks.clear()
            function.args = ()

    def lower_block(self, block: ir.Block) -> None:
        """Lower the instructions of a block, without texts for debugging."""
        self.pre_block(block)
        for instruction in block.body:
            # Most instructions delete or assign a variable. These skip Numba's chain of type tests,
            # `lower_inst`, which does more for assignments only with `debuginfo`.
            if isinstance(instruction, ir.Del):
                self.delvar(instruction.value)
            else:
                self.loc = instruction.loc
                if isinstance(instruction, ir.Assign) and not self.flags.debuginfo:
                    name = instruction.target.name
                    self.storevar(self.lower_assign(self.typeof(name), instruction), name)
                else:
                    self.lower_inst(instruction)
        self.post_block(block)

    def lower_assign(self, ty: Type, inst: ir.Assign) -> Value:
        """Lower the right side of an assignment, without the addresses of functions."""
        # A compiled function is called by its name; nothing reads its address.
        if isinstance(ty, types.Dispatcher):
            return self.context.get_dummy_value()
        return super().lower_assign(ty, inst)

    def lower_binop(self, resty: Type, expr: ir.Expr, op: Callable[..., object]) -> Value:
        """Lower a binary operator as Numba does, but look it up only once for its types."""
        # Operands that are constants (static) are left to Numba.
        if not (expr.static_lhs is expr.static_rhs is ir.UNDEFINED):
            return super().lower_binop(resty, expr, op)
        signature = self.fndesc.calltypes[expr]
        key = op, tuple(signature.args)
        if key not in self.operations:
            self.operations[key] = self.operation(op, signature.args)
        cast, names = self.context.cast, (expr.lhs.name, expr.rhs.name)
        operands = [
            cast(self.builder, self.loadvar(name), self.typeof(name), kind)
            for name, kind in zip(names, signature.args, strict=True)
        ]
        result = self.operations[key](self.builder, operands)
        return cast(self.builder, result, signature.return_type, resty)

    def operation(self, op: Callable[..., object], kinds: Sequence[Type]) -> Emitter:
        """Return the function (builder, operands) that writes an operator for types of operands."""
        typing = self.context.typing_context
        function = typing.resolve_value_type(op)
        key = function, tuple(kinds), ()
        if key not in call_signatures:
            call_signatures[key] = function.get_call_type(typing, kinds, {})
        emitter: Emitter = self.context.get_function(function, call_signatures[key])
        return emitter

    def alloca(self, name: str, type: Type) -> Value:
        """Return memory for a variable, unlike Numba's not filled with zeros."""
        kind = self.context.get_value_type(type)
        return cgutils.alloca_once(self.builder, kind, name=name, zfill=False)

    # References are counted for values of types that count them.
    def incref(self, typ: Type, val: Value) -> None:
        if is_counted(self.context, typ):
            super().incref(typ, val)

    def decref(self, typ: Type, val: Value) -> None:
        if is_counted(self.context, typ):
            super().decref(typ, val)

    def delvar(self, name: str) -> None:
        if is_counted(self.context, self.typeof(name)):
            super().delvar(name)

    def storevar(self, value: Value, name: str, argidx: int | None = None) -> None:
        """Store a variable; one that is assigned once, and is not counted, needs no memory."""
        kind = self.typeof(name)
        # With debug information, every variable is in memory.
        if is_counted(self.context, kind) or self._disable_sroa_like_opt:
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, kind)
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class HelperLowering(compiler_machinery.LoweringPass):
    """Lower a helper to LLVM code, without machine code."""

    _name = "bvh_helper_lowering"

    def __init__(self) -> None:
        """Override an abstract method of Numba's."""
        compiler_machinery.LoweringPass.__init__(self)

    def run_pass(self, state: compiler.StateDict) -> bool:
        """Lower a helper into a library of its own, without a function that Python could call."""
        context, flags, name = state.targetctx, state.flags, state.func_id.func_qualname
        library = state.library = HelperLibrary(context.codegen(), name)
        # The key makes the name of a stored helper unique among those of all processes.
        named = {} if state.key is None else {"uid": state.key}
        description = funcdesc.PythonFunctionDescriptor.from_specialized_function(
            state.func_ir, state.typemap, state.return_type, state.calltypes,
            mangler=lambda *given, **other: _short_name(context.mangler(*given, **other | named)),
            inline=flags.forceinline, noalias=flags.noalias,
            abi_tags=[flags.get_mangle_string()],
        )  # fmt: skip
        with context.push_code_library(library):
            lower = KernelLower(
                context, library, description, state.func_ir, metadata=state.metadata
            )
            lower.lower()
        library._ensure_finalized()
        # Python never calls it, so it has no address.
        function = callable_of(description, lower.env, library)
        context.insert_user_function(function, description, [library])
        state["cr"] = compiler._LowerResult(
            description, lower.call_helper, cfunc=function, env=lower.env
        )
        state.metadata["prune_stats"] = None
        state.metadata["llvm_pass_timings"] = library.recorded_timings
        return True


def callable_of(description: Any, environment: object, library: HelperLibrary) -> Any:
    """Return the function that stands for a helper in Numba's tables; it is never called."""
    name = description.qualname.split(".")[-1]
    module = description.lookup_module()
    return _dynfunc.make_function(module, name, "helper", 0, environment, (library,))


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class EntryLowering(typed_passes.NativeLowering):
    """Lower an entry into an `EntryLibrary`, whose machine code can be stored."""

    _name = "bvh_entry_lowering"
    lowering_class = KernelLower

    def run_pass(self, state: compiler.StateDict) -> bool:
        state.library = EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class KernelFlags(compiler.Flags):
    """Numba's flags, compared by those that are set: each use of an overload looks them up."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelFlags) and bool(self._values == other._values)


class KernelPasses(compiler_machinery.PassManager):
    """Numba's list of passes, run without events and checks: they took a twentieth of the time."""

    def run(self, state: compiler.StateDict) -> None:
        for step, _ in self.passes:
            kernel_pass = compiler_machinery._pass_registry.get(step).pass_inst
            kernel_pass.analysis = self._analysis
            kernel_pass.run_initialization(state)
            kernel_pass.run_pass(state)
            kernel_pass.run_finalizer(state)


class KernelCompiler(compiler.CompilerBase):
    """Numba's compiler with the code generator and the passes of kernels."""

    lowering: type[compiler_machinery.CompilerPass]

    def __init__(self, typingctx: object, targetctx: object, *arguments: object) -> None:
        """Use the context of kernels in place of Numba's."""
        super().__init__(typingctx, kernel_context(), *arguments)
        self.state.flags = KernelFlags(self.state.flags)

    def define_pipelines(self) -> list[compiler_machinery.PassManager]:
        manager = KernelPasses("bvh")
        steps = FrontEnd, typed_passes.AnnotateTypes, self.lowering, typed_passes.NoPythonBackend
        for step in steps:
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


class HelperCompiler(KernelCompiler):
    lowering = HelperLowering


class EntryCompiler(KernelCompiler):
    lowering = EntryLowering


def compile_helper(helper: Dispatcher, signature: object) -> object:
    """Compile a helper for a signature, as its own `compile` would; return its entry point."""
    kinds, result = sigutils.normalize_signature(signature)
    if kinds not in helper.overloads:
        # Numba's `compile` announces each compilation by this event, too.
        compile_event = event.trigger_event("numba:compile", {"dispatcher": helper, "args": kinds})
        with global_compiler_lock, helper._compiling_counter, compile_event:
            helper.add_overload(helper._compiler.compile(kinds, result))
    return helper.overloads[kinds].entry_point
