"""Seeds, the command line, and the audit of every tree that a test makes.

Seeds are fixed in ordinary runs, fresh when BVH_FUZZ_SEED says so, and printed on failure.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bvh.queries.tree_base import TreeBase
from bvh.runtime.compiler.kernel_cache import tally
from bvh.tree import build
from bvh.tree.arrays import TreeArrays
from bvh.tree.primitives import count_of
from bvh.tree.stats import check
from tests.commands import Run
from tests.warm_kernels import compile_package, stored, stored_at

# A shell that starts the tests in the background lets them, and what they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Larger trees are audited where a test is about that, and with BVH_AUDIT=all, as in CI.
LARGEST_AUDITED = 20_000 if os.environ.get("BVH_AUDIT") == "all" else 2_000

_set_arrays = TreeBase._set_arrays
_audits = True


def _set_and_audit(tree: TreeBase, arrays: TreeArrays) -> None:
    """Give a tree its arrays, be it built, moved, copied or loaded, if they pass the audit."""
    if _audits and count_of(arrays.primitives) <= LARGEST_AUDITED:
        check(arrays)
    _set_arrays(tree, arrays)


if os.environ.get("BVH_AUDIT", "1") != "0":
    TreeBase._set_arrays = _set_and_audit  # type: ignore[method-assign]


# Trees of any size are built by as many threads as tests say.
build.FEWEST_SHARED = 0

# Files that share a cluster: one process takes all of them, that which kills a worker last.
CLUSTERED = (
    "test_lazy_queries", "test_handles", "test_ray_sources", "test_task_threads",
    "test_scene_handles", "test_kernel_plugin", "test_clusters",
)  # fmt: skip
# Files whose tests read the whole package, which one process then parses.
READING = (
    "test_public",
    "test_public_names_only",
    "test_loops",
    "test_fingerprint",
    "test_lazy_imports",
)
# Files that take longest, the longest first, so that no process is left with one at the end.
FIRST = (
    *CLUSTERED, "test_compact_groups", "test_relations", "test_distance_to", "test_user_calls",
    "test_parts", "test_bench", "test_fingerprint", "test_marquee_instances", "test_scene_overlaps",
    "test_imports", "test_all_hits", "test_triangle_overlap", "test_scene_rays", "test_same_bits",
    "test_gallery", "test_user_functions", "test_formulas", "test_oracles", "test_lazy_imports",
    "test_intersections", "test_overlap_tree", "test_ray_sorting", "test_public", "test_builders",
    "test_viewer_page", "test_exactness", "test_scene_points", "test_kernels", "test_storage",
    "test_compat_open3d", "test_part_pictures", "test_simd", "test_cpu_levels", "test_cli_pipes",
    "test_torch_rays", "test_torch_points", "test_jax", "test_other_libraries", "test_partitioning",
    "test_render",
)  # fmt: skip

# Tests with many parameters, by file and name: ordinary runs take one of so many of them, those of
# the least hashes; the others are `long`.
ONE_OF = {
    "test_all_hits::test_families": 16, "test_all_hits::test_parity": 3,
    "test_bench::test_meshes_are_those_of_the_files": 4,
    "test_boxes::test_random_rays_at_all_scales": 2, "test_brute::test_our_meshes": 4,
    "test_builders::test_threads_share_the_top": 2, "test_builders::test_trees": 24,
    "test_capsules::test_unlike_sizes": 2, "test_changes::test_each_change_then_each_query": 4,
    "test_clearances::test_any_size": 2, "test_clearances::test_clearances_equal_all_pairs": 4,
    "test_cli_parts::test_render": 9, "test_cli_scenes::test_render": 2,
    "test_close_meshes::test_lowest_pair_of_many": 4, "test_closest_point::test_our_meshes": 4,
    "test_closest_point::test_scans": 3, "test_closest_point::test_soups": 4,
    "test_compact_groups::test_beside_edges": 3, "test_compact_groups::test_families": 4,
    "test_compat_collisions::test_distances_at_the_ends_of_the_range": 2,
    "test_compat_mujoco::test_many_rays": 4,
    "test_compat_open3d::test_rays_against_rational_arithmetic": 2,
    "test_device_points::test_families": 24, "test_device_rays::test_families": 32,
    "test_device_refits::test_a_deformed_mesh": 2,
    "test_device_refits::test_few_and_equal_triangles": 3, "test_device_stages::test_fans": 3,
    "test_distance_to::test_any_size": 6,
    "test_distance_to::test_edges_almost_parallel_and_needles": 6,
    "test_distance_to::test_single_pairs": 4, "test_distance_to::test_two_trees": 3,
    "test_edge_sides::test_hits_of_vertices_and_edges": 6,
    "test_edge_sides::test_sides_at_a_vertex": 3,
    "test_epo::test_overlap_is_what_clipping_in_rational_numbers_gives": 2,
    "test_exact_sums::test_quotient_is_correctly_rounded": 2, "test_exactness::test_triangles": 2,
    "test_exactness::test_triangles_one_by_one": 3, "test_excluded_instances::test_as_if_hidden": 2,
    "test_followed_meshes::test_edits": 3, "test_formulas::test_gradients_of_distances": 5,
    "test_formulas::test_rates_of_hits_are_exact": 10,
    "test_groups::test_a_tree_of_the_faces_that_count": 2, "test_groups::test_hostile_meshes": 12,
    "test_groups::test_scenes": 2, "test_imports::test_users_functions_call_ours": 2,
    "test_interrupted_partitions::test_a_full_disk": 5, "test_intersections::test_sections": 4,
    "test_kernel_folders::test_a_relative_home_does_not_move": 2, "test_kernels::test_boxes": 2,
    "test_kernels::test_images": 4, "test_kernels::test_scales": 6,
    "test_kernels::test_spoiled_lanes": 5, "test_kernels::test_triangles": 3,
    "test_lab::test_random_states_are_answered_exactly": 2,
    "test_lab_page::test_arrows_can_be_dragged": 2, "test_lazy_queries::test_parts": 3,
    "test_lazy_queries::test_positions_and_normals": 4, "test_lazy_queries::test_rays_of_a_tree": 2,
    "test_leaks::test_no_ray_leaves_a_closed_mesh": 2,
    "test_marquee_instances::test_what_crosses_near_and_far_is_cut": 2,
    "test_matrices::test_opencv": 6, "test_matrices::test_renderers": 6,
    "test_merged_leaves::test_hits_equal_those_of_the_mesh": 3, "test_mesh_fuzz::test_some": 4,
    "test_mirrored_nodes::test_picks_and_pictures": 3,
    "test_near_margins::test_rays_beside_edges": 8,
    "test_obbs::test_bounds_contain_every_corner": 2,
    "test_obbs::test_lattice_rays_graze_edges_and_corners": 2, "test_obbs::test_random_boxes": 2,
    "test_obbs::test_turned_boxes_met_at_corners_and_edges": 2,
    "test_one_state::test_a_refit_at_each_read": 6,
    "test_oracles::test_families_are_small_and_repeatable": 4,
    "test_oracles::test_triangles_twice": 12, "test_overlap_tree::test_itself": 4,
    "test_overlap_tree::test_two_trees": 6, "test_overlaps::test_regions": 6,
    "test_part_groups::test_masks": 4, "test_part_pictures::test_pictures_are_those_of_one_tree": 8,
    "test_part_queries::test_progress": 4, "test_part_queries::test_sorted_rays": 3,
    "test_partitioning::test_what_no_grid_divides": 3, "test_parts::test_hostile_families": 160,
    "test_parts::test_hostile_families_lazily": 14, "test_parts::test_meshes": 24,
    "test_parts::test_winding_numbers": 2,
    "test_penetrations::test_depth_depends_on_no_triangles": 2,
    "test_planes::test_random_planes_at_all_scales": 2, "test_point_triangle::test_any_size": 3,
    "test_point_triangle::test_distances": 3, "test_proofs::test_proofs": 6,
    "test_ray_setup::test_origins_near_and_far": 2, "test_ray_sorting::test_answers": 4,
    "test_ray_sorting::test_places": 4, "test_ray_sources::test_blocks_change_no_answer": 3,
    "test_refit::test_moves": 8, "test_refitting::test_a_hundred_frames": 2,
    "test_render::test_threads_and_bands_do_not_matter": 3,
    "test_round_pairs::test_overlaps_of_scenes": 2,
    "test_round_pairs::test_overlaps_within_a_tree": 2, "test_round_pairs::test_trees": 2,
    "test_round_picks::test_distances": 4, "test_round_picks::test_many": 2,
    "test_round_points::test_scenes": 4, "test_round_points::test_trees": 2,
    "test_round_regions::test_few_need_rationals": 2, "test_round_regions::test_regions": 6,
    "test_round_selections::test_scenes_and_many": 2, "test_round_shapes::test_rays": 2,
    "test_round_trips::test_frusta": 3, "test_round_trips::test_round_trips": 3,
    "test_rows::test_kernels_find_the_same_by_a_row_as_by_arrays": 3,
    "test_same_bits::test_what_may_be_fused_is_found": 3,
    "test_scales::test_gradients_are_exact": 4,
    "test_scene_overlaps::test_pairs_equal_the_flattened_meshes": 2,
    "test_scene_pictures::test_picks_are_those_of_the_dumped_scene": 6,
    "test_scene_rays::test_scenes_equal_their_meshes": 8,
    "test_scene_storage::test_spoiled_files": 2,
    "test_scene_streams::test_streams_equal_single_rays": 8,
    "test_signs::test_the_error_of_winding_numbers": 3, "test_signs::test_winding_numbers": 3,
    "test_single_queries::test_one_point_gets_what_a_batch_gets": 3,
    "test_single_queries::test_one_ray_gets_what_a_batch_gets": 3,
    "test_single_queries::test_what_is_searched_may_change": 2, "test_solid_points::test_trees": 2,
    "test_spheres::test_capsules": 2, "test_spheres::test_hostile_numbers": 2,
    "test_spheres::test_rays": 9, "test_storage::test_a_loaded_tree_answers_bit_for_bit": 3,
    "test_storage_fuzz::test_spoiled_files": 2, "test_task_threads::test_a_task_is_one_thread": 8,
    "test_threads::test_ctrl_c": 4, "test_tlas::test_moves": 4,
    "test_tree_picks::test_as_in_a_scene": 2, "test_triangle_overlap::test_boxes": 8,
    "test_triangle_overlap::test_neighbours": 12, "test_triangle_overlap::test_planes": 8,
    "test_triangle_overlap::test_spheres": 4, "test_triangle_overlap::test_triangles": 8,
    "test_trimesh_issues::test_no_wrong_answer_is_timed": 6, "test_user_functions::test_filters": 2,
    "test_winding_numbers::test_winding_numbers_are_sums_of_solid_angles": 3,
    "test_world_bounds::test_turned_meshes": 4,
}  # fmt: skip

# Examples of queries in loops of users, which compile a traversal each; one of points is ordinary.
LONG_EXAMPLES = {
    "bvh/docs/custom.md::custom.md", "bvh/kernels.py::bvh.kernels",
    *(f"bvh/kernels.py::bvh.kernels.{name}" for name in ("any_hit", "closest_hit", "first_hits")),
}  # fmt: skip


# Folders and files whose outcome does not depend on the width of vectors or the CPU, as they are
# about Python: arguments and refusals, cameras, pictures, other libraries, commands, processes; or
# about kernels that have no vectors. All others are marked as `answers`, to be run for other widths
# and CPUs, too.
NOT_ABOUT_ANSWERS = (
    "apps/", "benchmarks/", "camera/", "compat/", "distributed/", "geometry/", "gradients/",
    "pictures/", "runtime/", "io/test_hostile", "io/test_mesh", "queries/test_inputs",
    "queries/test_refusals",
    "queries/test_hints", "queries/test_other_libraries", "scene/files/test_importing",
    "promises/test_gallery", "promises/test_lazy_imports", "promises/test_links",
    "promises/test_oracles", "promises/test_out_of_memory", "promises/test_public",
    "promises/test_reprs", "promises/test_site", "promises/test_threads",
    "promises/test_trimesh_issues",
)  # fmt: skip
# In these folders, but about answers.
ABOUT_ANSWERS = ("runtime/test_simd", "runtime/test_user")
# Those of which all are a `sample`; of others about answers, a third is, see `_some_of_each`.
SAMPLES = ("traversal/", "tree/", "promises/", "runtime/test_simd")

TESTS = Path(__file__).parent
# The kernels that are there when tests begin.
COMPILED = pytest.StashKey[set[str]]()
# The time at which the last `long` test may begin.
LAST = pytest.StashKey[float]()
# When the parts of tests began and ended, whether a kernel was compiled in them, and their names.
RAN: list[tuple[float, float, bool, str]] = []
_counted = SimpleNamespace(compiled=0)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the package's kernels before tests are dealt out to several processes.

    Each process stays in a family, whose kernels share their helpers: those that tests compile, as
    they need them, take twice as long, while the other process waits for some of them.
    """
    config = session.config
    processes = getattr(config.option, "tx", None) or ()
    whole = TESTS in {(config.invocation_params.dir / name).resolve() for name in config.args}
    is_worker = hasattr(config, "workerinput")
    if len(processes) > 1 and whole and not (is_worker or config.option.collectonly):
        compile_package(len(processes))
        session.stash[COMPILED] = stored()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Add the number of kernels that the process has compiled since its last report."""
    report = yield
    report.compiled = tally.compiled - _counted.compiled
    _counted.compiled = tally.compiled
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Note when each part of a test ran, in any process."""
    compiled = getattr(report, "compiled", 0) > 0  # not of examples in the package
    RAN.append((report.start, report.stop, compiled, report.nodeid))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With BVH_WARM=strict, fail a run that compiled a kernel when a test needed it."""
    late = stored() - session.stash[COMPILED] if COMPILED in session.stash else set()
    if late and os.environ.get("BVH_WARM") == "strict":
        print("\ncompiled on demand, see tests/warm_kernels.py:")
        for kernel in sorted(late):
            print(f"  {kernel} by {running_at(stored_at(kernel))}")
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def running_at(time: float) -> str:
    """Return the names of the tests that were running at a time: of those that compiled, if any."""
    found = [(compiled, name) for start, stop, compiled, name in RAN if start <= time <= stop]
    some = any(compiled for compiled, _ in found)
    return " or ".join(sorted({name for one, name in found if one >= some})) or "the collection"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out files, those that share a cluster or parsed files as one."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            stem = Path(file).stem
            return "clustered" if stem in CLUSTERED else "reading" if stem in READING else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare the garbage collector what stays: a million objects of libraries and tests."""
    gc.freeze()
    seconds = float(os.environ.get("BVH_LONG_SECONDS", "inf"))
    session.stash[LAST] = time.monotonic() + seconds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of answers, and a sample of them for other machines; longest files first."""
    for items_of_test in _by_test(items).values():
        place = items_of_test[0].location
        wanted = ONE_OF.get(f"{Path(place[0]).stem}::{place[2].partition('[')[0]}", 1)
        for item in items_of_test[-(-len(items_of_test) // wanted) :]:
            item.add_marker(pytest.mark.long)
    for item in items:
        if item.nodeid in LONG_EXAMPLES:
            item.add_marker(pytest.mark.long)
    some = _some_of_each(items)
    _leave_share_of_long(items)
    for item in items:
        if TESTS not in item.path.parents:
            continue
        name = item.path.relative_to(TESTS).as_posix()
        if name.startswith(ABOUT_ANSWERS) or not name.startswith(NOT_ABOUT_ANSWERS):
            item.add_marker(pytest.mark.answers)
        if item.get_closest_marker("answers"):
            if name.startswith(SAMPLES) or item.nodeid in some:
                item.add_marker(pytest.mark.sample)
    places = {f"{name}.py": place for place, name in enumerate(FIRST)}
    seed = os.environ.get("BVH_LONG")

    def order(item: pytest.Item) -> tuple[bool, int]:
        """Return the place of a test; of long ones of a share, by hash."""
        if seed and item.get_closest_marker("long"):
            return True, zlib.crc32(f"{seed} {item.path.name}".encode())
        return False, places.get(item.path.name, len(places))

    items.sort(key=order)


def _by_test(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Return the ordinary items of each test, of the least hashes of parameters first."""
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        # A test that is slow with some parameters is represented by others.
        if not (item.get_closest_marker("slow") or item.get_closest_marker("long")):
            found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for one in found.values():
        one.sort(key=lambda item: zlib.crc32(item.nodeid.partition("[")[2].encode()))
    return found


def _some_of_each(items: list[pytest.Item]) -> set[str]:
    """Return the names of a third of the parameters of each test."""
    return {item.nodeid for one in _by_test(items).values() for item in one[: -(-len(one) // 3)]}


def _leave_share_of_long(items: list[pytest.Item]) -> None:
    """Leave one of so many `long` tests, as BVH_LONG says: "SEED/4" for a quarter.

    Their files are then in an order that depends on the seed, too.
    """
    seed, _, share = os.environ.get("BVH_LONG", "").partition("/")
    if share:
        items[:] = [
            item
            for item in items
            if not item.get_closest_marker("long")
            or zlib.crc32(f"{seed} {item.nodeid}".encode()) % int(share) == 0
        ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip `long` tests when BVH_LONG_SECONDS have passed since the collection."""
    if item.get_closest_marker("long") and time.monotonic() > item.session.stash[LAST]:
        pytest.skip("the seconds for long tests have passed")


@pytest.fixture(autouse=True)
def _audit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave out the audit of trees in tests that are marked as unaudited."""
    global _audits
    _audits = request.node.get_closest_marker("unaudited") is None
    yield
    _audits = True


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return a seed of the test's own; pytest shows the printed line when the test fails."""
    base = int(os.environ.get("BVH_FUZZ_SEED", "20261121"))
    # A test keeps its seed when its file moves to another folder.
    name = f"tests/{request.node.nodeid.rpartition('.py::')[0].rpartition('/')[2]}.py::"
    value = base ^ zlib.crc32((name + request.node.nodeid.partition("::")[2]).encode())
    print(f"seed {value} (BVH_FUZZ_SEED={base})")
    return value


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a random generator of the test's own."""
    return np.random.default_rng(seed)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs the command in `tmp_path`; it returns (exit code, out, err)."""
    from bvh.__main__ import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bvh", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            main()
        return (ending.value.code or 0, *capsys.readouterr())

    return call
