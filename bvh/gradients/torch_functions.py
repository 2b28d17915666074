"""Searches and results as functions of PyTorch, with backward and forward derivatives."""

from functools import wraps
from typing import ClassVar

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bvh.torch needs PyTorch: install it as https://pytorch.org says, for example with "
        "'pip install torch'",
        name=error.name,
    ) from error

from bvh.gradients import formulas
from bvh.gradients.queries import DifferentiableQueries
from bvh.gradients.searches import plain_memory

CPU = torch.device("cpu")


class ZeroUnlessFinite(torch.autograd.Function):
    """Values in range, as are their derivatives of any order: apply(values, axes)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values, axes):
        """Return `formulas.zero_unless_finite` of values over the last `axes` axes."""
        return formulas.zero_unless_finite(torch, values, axes)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save `axes` for the derivatives."""
        ctx.axes = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        """Return the gradient, 0 unless finite, and None for `axes`."""
        return ZeroUnlessFinite.apply(gradient, ctx.axes), None

    @staticmethod
    def jvp(ctx, tangent, _):
        """Return the tangent, 0 unless finite; that of `axes` is not used."""
        return ZeroUnlessFinite.apply(tangent, ctx.axes)


def zero_unless_finite(values, axes):
    """Return `formulas.zero_unless_finite`, by `ZeroUnlessFinite` if gradients are recorded."""
    if torch.is_grad_enabled():
        return ZeroUnlessFinite.apply(values, axes)
    return formulas.zero_unless_finite(torch, values, axes)


LIBRARY = formulas.ArrayLibrary(torch, Tensor.detach, zero_unless_finite, torch.is_grad_enabled)


class Searching(torch.autograd.Function):
    """Results of a search, without derivatives: apply(search, vertices or None, *arguments)."""

    @staticmethod
    def forward(search, *tensors):
        """Return the results of a search; raise a TypeError for tensors without data."""
        try:
            arrays = [None if x is None else x.detach().numpy() for x in tensors]
        except RuntimeError as error:
            raise TypeError(
                "a search needs tensors with data, not those of a trace or an export: "
                f"call it outside, as torch.compile does ({error})"
            ) from error
        return tuple(torch.from_numpy(array) for array in search(*arrays))

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Mark all results as without derivatives."""
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx, *gradients):
        """Return no gradient, None, for each input."""
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    def vmap(info, in_dims, search, *tensors):
        """Search once for a batch, whose axis comes first; return (results, 0), that axis.

        `in_dims` are the batch axes of the arguments, None for those without; `info` is unused.
        """
        batch = [
            None if x is None else x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        return Searching.apply(search, *batch), 0


class Differentiable(torch.autograd.Function):
    """Results with derivatives (see `DifferentiableQueries.differentiable`)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rule, *given):
        """Return copies of the results: an output must not be an input."""
        return tuple(x.clone() for x in given[rule.moving : rule.moving + rule.results])

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save what the formulas need."""
        ctx.rule, *given = inputs
        ctx.fixed = len(given) - ctx.rule.moving
        saved = ctx.rule.saved(given, output)
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)

    @staticmethod
    def backward(ctx, *gradients):
        """Return the gradients of the moving arguments, and None for `rule` and the others."""
        result = ctx.rule.pull(LIBRARY, *ctx.saved_tensors, gradients)
        return (None, *result, *[None] * ctx.fixed)

    @staticmethod
    def jvp(ctx, _, *tangents):
        """Return the tangents of the results for `tangents` of the arguments after `rule`."""
        start, last, *_ = ctx.saved_tensors
        # Tangents of the moving arguments come first; None stands for zeros.
        like = (*[start] * (ctx.rule.moving - 1), last)
        pairs = zip(tangents, like, strict=False)
        slopes = tuple(torch.zeros_like(y) if x is None else x for x, y in pairs)
        return ctx.rule.push(LIBRARY, *ctx.saved_tensors, slopes)


class TorchQueries(DifferentiableQueries[Tensor]):
    """The queries of `bvh.torch`."""

    words: ClassVar = {"array": "tensor", "result": "tensor", "refusals": ""}
    library = LIBRARY
    differentiable = staticmethod(Differentiable.apply)

    def guarded(self, query):
        """Return a query that is called between the graphs of `torch.compile`."""
        # `torch.compiler.disable` imports the compiler, which takes as long as PyTorch: only when
        # something is compiled.

        @wraps(query)
        def call(*args, **options):
            if torch.compiler.is_compiling():
                # Errors with fullgraph=True show this line.
                outside = torch.compiler.disable(query, reason="trees are searched between graphs")
                return outside(*args, **options)
            return query(*args, **options)

        return call

    def reals(self, name, value):
        """Return the argument `value` as float64 on the CPU that keeps its gradient."""
        try:
            tensor = torch.as_tensor(plain_memory(value))
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{name} must be a tensor or an array of numbers: {error}") from None
        if tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{name} must be real numbers, got a tensor of {tensor.dtype}")
        if tensor.is_meta:
            raise TypeError(f"{name} must have data, got a tensor on the device meta")
        if tensor.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got one of layout {tensor.layout}")
        return tensor.to(CPU).to(torch.float64)

    def search(self, search, arguments, shape):
        """Return the results of a search, without derivatives; `shape` is for other libraries."""
        return Searching.apply(search, *(None if x is None else x.detach() for x in arguments))

    def constant(self, find):
        """Return the array that find() returns, as a tensor without gradient."""
        return torch.from_numpy(find())

    def summable(self, rows):
        """Return `rows` of three whose gradients, summed over all queries, become 0 on overflow."""
        return ZeroUnlessFinite.apply(rows, 1) if rows.requires_grad else rows

    def returned(self, results, given):
        """Return results on the device of the first tensor of `given`, the arguments of a query."""
        device = next((x.device for x in given if isinstance(x, Tensor)), CPU)
        return [x.to(device) for x in results]
