"""Functions called by address: users' functions, so that kernels are not compiled for them.

A user's function is compiled alone, into one of a fixed signature that reads its data from memory.
A kernel takes the addresses of that function and of its data, and so comes from the cache for any
function. The call follows Numba's own convention, and exceptions of the function reach Python.
"""

import contextlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bvh.runtime.calls.words import is_stored, read, words_of
from bvh.runtime.compiler.code_types import Dispatcher, Signature, Type
from bvh.runtime.compiler.deferred import activate, real_of
from bvh.runtime.compiler.lazy_modules import cgutils, errors, ir, type_of_kind, typeof, types
from bvh.runtime.jit import address_of, called_by_address, llvm_operation

# Compiled functions cached for the next query, one for each type of data.
MAX_COMPILED = 256

F8, I4, I8, VECTOR = np.float64, np.int32, np.int64, (np.float64,) * 3

T = TypeVar("T")
Load = Callable[[int], object]


class Interface(NamedTuple):
    """Signature of users' functions of one purpose: filters of hits, tests of primitives."""

    parameters: tuple[str, ...]  # names; the last is "data"
    kinds: tuple[Any, ...]  # types of all parameters but the data: numpy's, or tuples of them
    result: Any  # type of the result
    # (user's function, load) -> function of the same parameters, whose last one is the address of
    # the data: load(address) reads these.
    around: Callable[[Dispatcher, Load], Callable[..., object]]

    def signature(self) -> Signature:
        """Return Numba's signature of the compiled function; the data's address is last."""
        return type_of_kind(self.result)(*map(type_of_kind, self.kinds), types.int64)


class UserCall(NamedTuple):
    """Addresses of a user's compiled function and of its data, for kernels.

    `references` keeps both alive, and must outlive the kernels' calls.
    """

    function: int  # 0 for no function
    data: int
    references: object


NO_CALL = UserCall(0, 0, None)


def _filter(function: Dispatcher, load: Load) -> Callable[..., object]:
    """Return a user's filter of hits as a function that takes the data's address; True accepts."""

    def call(ray_id, prim_id, t, u, v, address):
        return bool(function(ray_id, prim_id, t, u, v, load(address)))

    return call


def _scene_filter(function: Dispatcher, load: Load) -> Callable[..., object]:
    """Return a user's filter of hits of a scene as a function that takes the data's address."""

    def call(ray_id, instance_id, prim_id, t, u, v, address):
        return bool(function(ray_id, instance_id, prim_id, t, u, v, load(address)))

    return call


def _intersect(function: Dispatcher, load: Load) -> Callable[..., object]:
    """Return a user's test of a primitive as a function of the data's address; it gives floats."""

    def call(prim_id, origin, direction, t_min, t_max, address):
        t, u, v = function(prim_id, origin, direction, t_min, t_max, load(address))
        return float(t), float(u), float(v)

    return call


FILTER = Interface(
    ("ray_id", "prim_id", "t", "u", "v", "data"), (I8, I8, F8, F8, F8), np.bool_, _filter
)
SCENE_FILTER = Interface(
    ("ray_id", "instance_id", "prim_id", "t", "u", "v", "data"),
    (I8, I4, I8, F8, F8, F8), np.bool_, _scene_filter,
)  # fmt: skip
INTERSECT = Interface(
    ("prim_id", "origin", "direction", "t_min", "t_max", "data"),
    (I8, VECTOR, VECTOR, F8, F8), VECTOR, _intersect,
)  # fmt: skip


def user_call(function: Dispatcher, data: object, interface: Interface) -> UserCall:
    """Compile a user's function for the type of its data; return the addresses of both."""
    address, code = _compiled(function, interface, typeof(data))
    # None has no words: then one word of zeros, so that there is an address.
    words = np.frombuffer(words_of(data) or bytes(8), np.int64)
    return UserCall(address, words.ctypes.data, (code, words, data))


@lru_cache(maxsize=MAX_COMPILED)
def _compiled(function: Dispatcher, interface: Interface, kind: Type) -> tuple[int, Dispatcher]:
    """Compile a user's function for data of type `kind`; return (address, owner of the code)."""
    compiled = called_by_address(interface.around(function, _loader(kind)))
    return address_of(compiled, interface.signature()), compiled


def _loader(kind: Type) -> Any:
    """Return an intrinsic (address) that reads data of type `kind`, whose arrays own no memory."""

    @llvm_operation
    def load(typingctx, address):
        def codegen(context, builder, sig, args):
            at = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            return read(context, builder, kind, at)[0]

        return kind(types.int64), codegen

    return load


def _by_address(interface: Interface) -> Any:
    """Return an intrinsic (address, arguments) -> result that calls a function of an interface.

    `arguments` are a tuple, whose last member is the address of the data.
    """

    @llvm_operation
    def call(typingctx, address, arguments):
        result, kinds = interface.signature().return_type, interface.signature().args

        def codegen(context, builder, sig, args):
            convention = context.call_conv
            kind = convention.get_function_type(result, kinds).as_pointer()
            status, value = convention.call_function(
                builder, builder.inttoptr(args[0], kind), result, kinds,
                cgutils.unpack_tuple(builder, args[1]),
            )  # fmt: skip
            # Exceptions of the function are the caller's.
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return value

        return result(types.int64, types.Tuple(kinds)), codegen

    return call


call_filter = _by_address(FILTER)
call_scene_filter = _by_address(SCENE_FILTER)
call_intersect = _by_address(INTERSECT)


def user_function(name: str, function: object, interface: Interface) -> Dispatcher:
    """Return Numba's dispatcher of a user's function; raise a TypeError if kernels cannot call it.

    `name` is the argument that the errors name.
    """
    activate()
    from numba.core.dispatcher import Dispatcher

    function = real_of(function)
    got = getattr(function, "__name__", None) or type(function).__name__
    if not isinstance(function, Dispatcher) or function.targetoptions.get("forceobj", False):
        raise TypeError(f"{name} must be a function compiled with numba.njit, got {got}")
    signature, parameters = inspect.signature(function.py_func), interface.parameters
    try:
        signature.bind(*parameters)
    except TypeError:
        expected = ", ".join(parameters)
        raise TypeError(f"{name} must take ({expected}), got {got}{signature}") from None
    return function


def user_data(data: T) -> T:
    """Return the data of a user's function; raise a TypeError if kernels cannot take it."""
    # Numba has no type for some objects. Unlike a kernel's, these arrays may be strided.
    with contextlib.suppress(TypeError, ValueError, errors.NumbaError):
        if is_stored(typeof(data), in_order=False):
            return data
    what = "an array of numbers, a number, or a tuple of them"
    got = type(data).__name__ + (f" of {data.dtype}" if hasattr(data, "dtype") else "")
    raise TypeError(f"data must be {what}, got {got}")


def user_filter(function: object, data: object, interface: Interface = FILTER) -> UserCall:
    """Check and compile a user's filter and its data; return them as kernels take them."""
    return user_call(user_function("filter", function, interface), user_data(data), interface)
