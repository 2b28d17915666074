"""From Python's bytecode to typed instructions: Numba's steps, without what no kernel needs.

It omits `with` blocks, closures, array expressions, texts of errors that nobody reads, and the
lifetimes of variables, which Numba computes after each step. Results that Numba computes each time
are cached. All this is internal to Numba, as in `compilation`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType

from numba.core import (
    analysis,
    compiler,
    compiler_machinery,
    errors,
    interpreter,
    ir,
    ir_utils,
    postproc,
    ssa,
    typed_passes,
    typeinfer,
    types,
)
from numba.core.rewrites import static_binop, static_getitem

from bvh.runtime.compiler.code_types import Context, Signature, Type

REWRITES = (
    static_getitem.RewriteConstGetitems, static_getitem.RewriteConstSetitems,
    static_binop.DetectStaticBinops,
)  # fmt: skip
# Numba's functions that rewrite the end of `with` blocks, and merged dicts.
UNUSED = "peep_hole_delete_with_exit", "peep_hole_fuse_dict_add_updates"
FUNCTIONS = FunctionType, BuiltinFunctionType

# Results that Numba computes each time: the signature of a call by its function and argument types,
# and whether a type counts references.
call_signatures: dict[tuple[object, ...], Signature] = {}
_counted: dict[Type, bool] = {}


def is_counted(context: Context, kind: Type) -> bool:
    """Return whether values of a type count references."""
    if kind not in _counted:
        _counted[kind] = context.data_model_manager[kind].contains_nrt_meminfo()
    return _counted[kind]


class KernelInterpreter(interpreter.Interpreter):
    """Numba's interpreter of bytecode, without searches for `with` blocks and dicts."""

    def post_process(
        self, peepholes: Iterable[Callable[[ir.FunctionIR], ir.FunctionIR]], func_ir: ir.FunctionIR
    ) -> ir.FunctionIR:
        """Return the instructions as rewritten by those of `peepholes` that kernels need."""
        needed = [peep for peep in peepholes if peep.__name__ not in UNUSED]
        return super().post_process(needed, func_ir)


class KernelTypeInferer(typeinfer.TypeInferer):
    """Numba's type inference, with cached signatures."""

    def resolve_call(
        self, fnty: Type, pos_args: Sequence[Type], kw_args: Mapping[str, Type]
    ) -> Signature | None:
        """Return the signature of a call; those of functions are cached by the arguments' types."""
        if not isinstance(fnty, types.Function | types.NumberClass | types.Dispatcher):
            return super().resolve_call(fnty, pos_args, kw_args)
        key = fnty, tuple(pos_args), tuple(kw_args.items())
        found = call_signatures.get(key)
        if found is None:
            found = super().resolve_call(fnty, pos_args, kw_args)
            # None means an error, or that some types are not known yet.
            if found is not None:
                call_signatures[key] = found
        return found

    def resolve_value_type(self, inst: ir.Assign, val: object) -> Type:
        """Return the type of the constant `val` of an instruction."""
        # Numba looks for types of functions only after it has failed to find one of their value.
        kind = type(val) in FUNCTIONS and self.context._get_global_type(val)
        return kind or super().resolve_value_type(inst, val)

    def propagate(self, raise_errors: bool = True) -> object:
        """Find the types of all variables; return None, or Numba's list of errors."""
        # Without loops, variables are defined before they are used, so that one pass over the
        # constraints finds all types, unless it has errors. Numba would repeat passes.
        has_loop = any(
            target <= key
            for key, block in self.blocks.items()
            for target in block.terminator.get_targets()
        )
        if has_loop or self.constraints.propagate(self):
            return super().propagate(raise_errors)
        return None


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class FrontEnd(compiler_machinery.FunctionPass):
    """Translate a kernel's bytecode, and find the types of its variables."""

    _name = "bvh_front_end"

    def __init__(self) -> None:
        """Override an abstract method of Numba's."""
        compiler_machinery.FunctionPass.__init__(self)

    def run_pass(self, state: compiler.StateDict) -> bool:
        """Set a function's instructions, `state.func_ir`, and types; return True: they changed."""
        # Skip the empty CACHE entries that Python, since 3.11, has among its instructions.
        for instruction in reversed(state.bc.table.values()):
            after = state.bc.table.get(instruction.next)
            if after is not None and after.opname == "CACHE":
                instruction.next = after.next
        code = KernelInterpreter(state.func_id).interpret(state.bc)
        state.nargs = code.arg_count
        analysis.rewrite_semantic_constants(code, state.args)
        analysis.dead_branch_prune(code, state.args)
        for kind in REWRITES:
            for key, block in code.blocks.items():
                rewrite = kind(state)
                if rewrite.match(code, block, None, None):
                    code.blocks[key] = rewrite.apply()
        code = ssa.reconstruct_ssa(code)
        code._definitions = ir_utils.build_definitions(code.blocks)
        _infer(state, code)
        code = state.func_ir = typed_passes.PreLowerStripPhis()._strip_phi_nodes(code)
        code._definitions = ir_utils.build_definitions(code.blocks)
        if any(is_counted(state.targetctx, kind) for kind in set(state.typemap.values())):
            postproc.PostProcessor(code).run(emit_dels=True)
        return True


def _infer(state: compiler.StateDict, code: ir.FunctionIR) -> None:
    """Set the types of all variables and calls, and of the result."""
    context, place = state.typingctx, (code.loc.filename, code.loc.line)
    target, fixer = state.targetctx.target, errors.WarningsFixer(errors.NumbaWarning)
    inferer = KernelTypeInferer(context, code, fixer)
    frame = context.callstack.register(target, inferer, code.func_id, state.args)
    with frame, fixer, fixer.catch_warnings(*place):
        for index, (name, kind) in enumerate(zip(code.arg_names, state.args, strict=True)):
            inferer.seed_argument(name, index, kind)
        if state.return_type is not None:
            inferer.seed_return(state.return_type)
        inferer.build_constraint()
        state.typing_errors = inferer.propagate(raise_errors=True)
        state.typemap, state.return_type, state.calltypes = inferer.unify(raise_errors=True)
    # Break its reference cycles, so that no garbage collection is needed.
    inferer.__dict__.clear()
