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


class Bounded(torch.autograd.Function):
    """Values in range, whose derivatives of any order are, too: apply(values, axes)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values, axes):
        """Return what `formulas.in_range` does."""
        return formulas.in_range(torch, values, axes)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep how many axes go together."""
        ctx.axes = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        """Return the gradient in range."""
        return Bounded.apply(gradient, ctx.axes), None

    @staticmethod
    def jvp(ctx, tangent, _):
        """Return the tangent in range."""
        return Bounded.apply(tangent, ctx.axes)


def bounded(values, axes):
    """Return what `formulas.in_range` does, sparing a function where nothing is recorded."""
    if torch.is_grad_enabled():
        return Bounded.apply(values, axes)
    return formulas.in_range(torch, values, axes)


LIBRARY = formulas.ArrayLibrary(torch, Tensor.detach, bounded, torch.is_grad_enabled)


class Searching(torch.autograd.Function):
    """What a search finds, without derivatives: apply(search, vertices, *queries)."""

    @staticmethod
    def forward(search, *tensors):
        """Search, once for a whole batch."""
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
        """Note that nothing has a derivative."""
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx, *gradients):
        """Return no gradients."""
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    def vmap(info, in_dims, search, *tensors):
        """Search once for the batch, whose axis comes first."""
        batch = [
            None if x is None else x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        return Searching.apply(search, *batch), 0


class Hitting(torch.autograd.Function):
    """Hits, with derivatives: apply(origins, directions, corners, t, u, v, hit)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(origins, directions, corners, t, u, v, hit):
        """Return t, u and v as they are, and the position."""
        return t.clone(), u.clone(), v.clone(), _position(corners, u, v)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep what derivatives depend on."""
        kept = inputs[1], inputs[2], *output[:3], inputs[6]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx, *gradients):
        """Return gradients by the rays and corners."""
        directions, corners, *found, hit = ctx.saved_tensors
        result = formulas.pull_hit(LIBRARY, directions, corners, tuple(found), hit, gradients)
        return (*result, None, None, None, None)

    @staticmethod
    def jvp(ctx, *tangents):
        """Return the tangents of results."""
        directions, corners, *found, hit = ctx.saved_tensors
        given = _or_zeros(tangents, (directions, directions, corners))
        return formulas.push_hit(LIBRARY, directions, corners, tuple(found), hit, given)


class Approaching(torch.autograd.Function):
    """Closest points, with derivatives: apply(points, corners, distance, position, u, v, ...).

    The rest: hit, and whether the distance is signed.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(points, corners, distance, position, u, v, hit, signed):
        """Return distance, position, u and v as they are."""
        return distance.clone(), position.clone(), u.clone(), v.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep what derivatives depend on."""
        kept = inputs[0], inputs[1], output[0], output[2], output[3], inputs[6]
        ctx.signed = inputs[7]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx, *gradients):
        """Return gradients by the points and corners."""
        points, corners, *found, hit = ctx.saved_tensors
        given = tuple(found), hit, ctx.signed, gradients
        result = formulas.pull_point(LIBRARY, points, corners, *given)
        return (*result, None, None, None, None, None, None)

    @staticmethod
    def jvp(ctx, *tangents):
        """Return the tangents of results."""
        points, corners, *found, hit = ctx.saved_tensors
        given = tuple(found), hit, ctx.signed, _or_zeros(tangents, (points, corners))
        return formulas.push_point(LIBRARY, points, corners, *given)


class TorchQueries(DifferentiableQueries[Tensor]):
    """The queries of `bvh.torch`."""

    words: ClassVar = {"array": "tensor", "result": "tensor", "refusals": ""}
    library = LIBRARY
    hitting = staticmethod(Hitting.apply)
    approaching = staticmethod(Approaching.apply)

    def guarded(self, query):
        """Return a query that is called between the graphs of `torch.compile`.

        `torch.compiler.disable` imports the compiler, which takes as long as PyTorch, so it waits
        until there is something to be compiled.
        """

        @wraps(query)
        def call(*args, **options):
            if torch.compiler.is_compiling():
                # What is refused with fullgraph=True shows this line.
                outside = torch.compiler.disable(query, reason="trees are searched between graphs")
                return outside(*args, **options)
            return query(*args, **options)

        return call

    def reals(self, name, value):
        """Return numbers as float64 on the CPU, with the gradient of those given."""
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
        """Return what a search finds, without derivatives."""
        return Searching.apply(search, *(None if x is None else x.detach() for x in arguments))

    def summable(self, rows):
        """Return rows of three, whose gradients, sums over all queries, are in range."""
        return Bounded.apply(rows, 1) if rows.requires_grad else rows

    def returned(self, results, given):
        """Return results on the device of the first tensor."""
        device = next((x.device for x in given if isinstance(x, Tensor)), CPU)
        return [x.to(device) for x in results]


def _position(corners, u, v):
    u, v = u[..., None], v[..., None]
    return (1.0 - u - v) * corners[..., 0, :] + u * corners[..., 1, :] + v * corners[..., 2, :]


def _or_zeros(tangents, like):
    """Return the tangents of the first arguments; zero for those that are None."""
    pairs = zip(tangents, like, strict=False)
    return tuple(torch.zeros_like(y) if x is None else x for x, y in pairs)
