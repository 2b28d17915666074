"""MuJoCo's rays beside ours: hits, distances and normals on a geom of each type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco", exc_type=ImportError)

from bvh.compat import mujoco as door  # noqa: E402
from bvh.queries.batches.ray_batches import RaySearch  # noqa: E402

MODEL = """<mujoco><asset><hfield name="h" nrow="20" ncol="30" size="2 3 .5 .2"/>
<mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1 1 1 1"/></asset><worldbody>
<geom type="plane" size="0 0 1" pos="0 0 -1"/><geom type="hfield" hfield="h" pos="6 0 0"/>
<geom type="plane" size=".5 .7 1" pos="0 6 0" euler="20 0 0" group="2"/>
<geom type="box" size="9 9 9" rgba="1 1 1 0"/>
<body pos="0 0 1"><freejoint/><geom type="sphere" size=".4"/>
<geom type="capsule" size=".2 .5" pos="2 0 0" euler="30 40 0"/></body>
<body pos="-2 0 1"><freejoint/><geom type="box" size=".3 .4 .5" euler="10 20 30" group="1"/>
<geom type="cylinder" size=".3 .5" pos="0 2 0"/></body>
<body pos="0 -3 1"><freejoint/><geom type="ellipsoid" size=".3 .5 .7"/>
<geom type="mesh" mesh="m" pos="2 0 0"/></body></worldbody></mujoco>"""
# Types of geoms that are exact, and those that are fine meshes.
EXACT, ROUND = (0, 1, 2, 3, 6, 7), (4, 5)


@pytest.fixture(scope="module")
def world() -> tuple[Any, Any, door.ModelScene]:
    """Return a model, its state, and the scene that follows it."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    model.hfield_data[:] = np.random.default_rng(0).random(600)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data, door.scene(model).follow(data)


@pytest.mark.parametrize(
    "options", [(None, 1, -1), (None, 1, 1), (None, 0, -1), ([1, 0, 0, 0, 0, 0], 1, -1)]
)
def test_many_rays(world: Any, options: Any, rng: np.random.Generator) -> None:
    """`mj_multiRay` with groups, without what stands still, and without a body."""
    model, data, ours = world
    count = 20_000
    groups = None if options[0] is None else np.array(options[0], np.uint8)
    vec = rng.normal(size=(count, 3))
    for pnt in ([0.3, 0.2, 3.0], [0.0, 0.0, 1.0]):
        found = []
        for ask, source in ((mujoco.mj_multiRay, (model, data)), (door.mj_multiRay, (ours,))):
            geom, dist, normal = np.zeros(count, np.int32), np.zeros(count), np.zeros(3 * count)
            given = np.array(pnt), vec.ravel(), groups, options[1], options[2]
            ask(*source, *given, geom, dist, normal, count, 1e10)
            found.append((geom, dist, normal.reshape(-1, 3)))
        (geom, dist, normal), (geom2, dist2, normal2) = found
        same = geom == geom2
        assert same.mean() > 0.999
        kinds = np.where(geom >= 0, model.geom_type[geom], -1)
        exact, near = same & np.isin(kinds, EXACT), same & np.isin(kinds, ROUND)
        assert np.abs(dist - dist2)[exact].max(initial=0.0) < 1e-12
        assert np.quantile(np.abs(dist - dist2)[near], 0.99) < 2e-3 if near.any() else True
        assert (np.abs((normal * normal2).sum(axis=1))[same & (geom >= 0)] > 0.98).mean() > 0.999
        assert (dist2[geom2 < 0] == -1.0).all()


def test_one_ray(world: Any, rng: np.random.Generator) -> None:
    """`mj_ray` with a geom's id and a normal; a cutoff; a miss is -1."""
    model, data, ours = world
    for _ in range(50):
        pnt, vec = rng.normal(size=3) * 3.0 + [0, 0, 2], rng.normal(size=3)
        geom, geom2 = np.zeros(1, np.int32), np.zeros(1, np.int32)
        normal = np.zeros(3)
        a = mujoco.mj_ray(model, data, pnt, vec, None, 1, -1, geom)
        b = door.mj_ray(ours, pnt, vec, None, 1, -1, geom2, normal)
        if geom[0] == geom2[0]:
            assert a == pytest.approx(b, abs=2e-2)
            assert (np.linalg.norm(normal) > 0.9) == (b >= 0.0)
    assert door.mj_ray(ours, [0, 0, 50.0], [0, 0, 1.0]) == -1.0


@pytest.mark.parametrize("normals", [False, True])
def test_a_batch_of_many_origins(world: Any, normals: bool, rng: np.random.Generator) -> None:
    """`closest_hit` is `mj_multiRay` from each origin, with planes; a miss is +inf and -1."""
    model, data, ours = world
    origins = rng.normal(size=(20, 3)) * 3.0 + [0.0, 0.0, 3.0]
    beams = rng.normal(size=(100, 3)) * rng.uniform(0.1, 9.0, (100, 1))
    groups = [1, 1, 0, 1, 1, 1]
    hits = ours.closest_hit(origins[:, None], beams, groups=groups, exclude=1, normals=normals)
    assert hits.t.shape == hits.geom_id.shape == (20, 100)
    for k, origin in enumerate(origins):
        geom, dist, normal = np.zeros(100, np.int32), np.zeros(100), np.zeros(300)
        door.mj_multiRay(
            ours, origin, beams, np.array(groups, np.uint8), 1, 1, geom, dist, normal, 100, 1e10
        )
        assert np.array_equal(geom, hits.geom_id[k])
        assert np.array_equal(np.where(geom < 0, np.inf, dist), hits.t[k])
        if hits.normal is not None:
            assert np.array_equal(normal.reshape(-1, 3), hits.normal[k])
        mujoco.mj_multiRay(
            model, data, origin, beams.ravel(), np.array(groups, np.uint8), 1, 1, geom, dist, None,
            100, 1e10,
        )  # fmt: skip
        assert (geom == hits.geom_id[k]).mean() > 0.97
    planes = np.isin(hits.geom_id, [0, 2])
    assert planes.any() and not (hits.geom_id == 2).any()
    assert (hits.normal is not None) == normals
    near = ours.closest_hit(origins[:, None], beams, t_max=1.0, groups=groups, exclude=1)
    assert np.array_equal(near.t, np.where(hits.t <= 1.0, hits.t, np.inf))
    one = ours.closest_hit([5.0, 5.0, 4.0], [0.0, 0.0, -2.0])
    assert (float(one.t), int(one.geom_id), one.normal) == (2.5, 0, None)


def test_it_follows() -> None:
    """Bodies that move are where they are."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    ours = door.scene(model)
    for height in (1.0, 4.0):
        data.qpos[2] = height
        mujoco.mj_forward(model, data)
        ours.follow(data)
        got = door.mj_ray(ours, [0.01, 0.02, 9.0], [0.0, 0.0, -1.0])
        assert got == pytest.approx(9.0 - height - 0.4, abs=2e-3)


def _crowd() -> tuple[Any, Any, door.ModelScene]:
    """Return a hundred bodies of two boxes each, in several groups, some of which stand still."""
    bodies = "".join(
        f'<body pos="{k % 10} {k // 10} {k % 3}">{"" if k % 5 == 0 else "<freejoint/>"}'
        f'<geom type="box" size=".3 .4 .2" group="{k % 6}"/>'
        f'<geom type="box" size=".2 .2 .5" pos=".3 .1 .2" group="{k % 4}"/></body>'
        for k in range(100)
    )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data, door.scene(model).follow(data)


def test_every_body_can_be_left_out(rng: np.random.Generator) -> None:
    """More bodies than masks have bits, each left out in turn, with groups and without."""
    model, data, ours = _crowd()
    count = 300
    for body in range(1, model.nbody):
        pnt, vec = data.xpos[body].copy(), rng.normal(size=3 * count)
        groups = None if body % 3 else rng.integers(0, 2, 6).astype(np.uint8)
        given = pnt, vec, groups, body % 2, body
        found = []
        for ask, source in ((mujoco.mj_multiRay, (model, data)), (door.mj_multiRay, (ours,))):
            geom, dist = np.zeros(count, np.int32), np.zeros(count)
            ask(*source, *given, geom, dist, None, count, 1e10)
            found.append((geom, dist))
        (geom, dist), (geom2, dist2) = found
        np.testing.assert_array_equal(geom, geom2)
        np.testing.assert_allclose(dist, dist2, rtol=0.0, atol=1e-12)
        one = door.mj_ray(ours, pnt, vec[:3], *given[2:])
        assert one == pytest.approx(dist[0], abs=1e-12)


def test_keywords_and_whole_numbers() -> None:
    """`mj_multiRay` takes the names of MuJoCo's arguments, and a cutoff that is an integer."""
    *_, ours = _crowd()
    down = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    for cutoff, wanted in ((10, 9.0 - 1.2), (3, -1.0)):
        geom, dist, normal = np.zeros(2, np.int32), np.zeros(2), np.zeros(6)
        door.mj_multiRay(
            ours,
            [1.0, 0.0, 9.0],
            down,
            None,
            1,
            -1,
            geom,
            dist,
            cutoff=cutoff,
            normal=normal,
            nray=1,
        )
        assert dist.tolist() == [pytest.approx(wanted), 0.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-170, 1.0, 1e200])
def test_cutoffs_and_directions_of_any_size(size: float) -> None:
    """A cutoff is a distance, whatever the length of the direction; rays without one miss."""
    *_, ours = _crowd()
    for cutoff, height in ((0.0, 9.0), (7.5, 9.0), (8.5, 9.0), (0.5, 1.5)):
        down = np.tile([0.0, 0.0, -size], (2, 1))
        for count in (1, 2):
            geom, found = np.zeros(count, np.int32), np.zeros(count)
            given = [1.0, 0.0, height], down[:count], None, 1, -1, geom, found, None, count, cutoff
            door.mj_multiRay(ours, *given)
            assert ((geom >= 0) == (size > 0.0 and cutoff >= height - 1.2)).all()


def test_rays_before_the_first_state() -> None:
    """Geoms have no places before `follow`: an error says so, with planes or without."""
    for geom in ("plane", "sphere"):
        xml = f'<mujoco><worldbody><geom type="{geom}" size="1 1 1"/></worldbody></mujoco>'
        world = door.scene(mujoco.MjModel.from_xml_string(xml))
        with pytest.raises(ValueError, match=r"call follow\(data\) before rays are cast"):
            world.closest_hit([0.0, 0.0, 5.0], [0.0, 0.0, -1.0])


def test_a_cast_changes_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cast leaves out is there for casts meanwhile, and after one that was interrupted."""
    *_, ours = _crowd()
    down = [1.0, 0.0, 9.0], [0.0, 0.0, -1.0], None, 1
    whole, less = door.mj_ray(ours, *down), door.mj_ray(ours, *down, 2)
    assert whole == pytest.approx(9.0 - 1.2) and less == -1.0
    cast, met = RaySearch.closest_hits, []

    def casts_meanwhile(search: RaySearch, *given: Any) -> Any:
        with monkeypatch.context() as patches:
            patches.setattr(RaySearch, "closest_hits", cast)
            met.append(door.mj_ray(ours, *down))
        return cast(search, *given)

    def interrupted(search: RaySearch, *_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(RaySearch, "closest_hits", casts_meanwhile)
        assert door.mj_ray(ours, *down, 2) == less
    assert met == [whole]
    with monkeypatch.context() as patches:
        patches.setattr(RaySearch, "closest_hits", interrupted)
        with pytest.raises(KeyboardInterrupt):
            door.mj_ray(ours, *down, 2)
    assert door.mj_ray(ours, *down) == whole


def test_arrays_to_write(world: Any) -> None:
    """Arrays of any layout are filled; lists and what is too short are refused by name."""
    vec, table = np.tile([0.0, 0.0, -1.0], (4, 1)), np.full((4, 3), 9.0)
    ours, geom = world[2], np.full((2, 4), 9, np.int32)

    def cast(geomid: Any, dist: Any, rays: Any = vec, count: int = 4) -> None:
        door.mj_multiRay(ours, [0.1, 0.2, 9.0], rays, None, 1, -1, geomid, dist, None, count)

    cast(geom[:, ::2], table[:, 1:2])
    assert (table[:, 1] == table[0, 1]).all()
    assert 0.0 < table[0, 1] < 9.0
    assert (table[:, [0, 2]] == 9.0).all()
    assert (geom[:, ::2] == geom[0, 0]).all()
    assert (geom[:, 1::2] == 9).all()
    with pytest.raises(TypeError, match="dist must be an array, got list"):
        cast(None, [0.0] * 4)
    with pytest.raises(ValueError, match="geomid must have 4 numbers, got 2"):
        cast(geom[0, :2], table[:, 0])
    with pytest.raises(ValueError, match="vec must have 4 directions, got 3"):
        cast(None, table[:, 0], vec[:3])
    with pytest.raises(ValueError, match="nray must be at least 0, got -1"):
        cast(None, table[:, 0], vec, -1)


def test_shapes_of_a_batch() -> None:
    """Origins, directions and limits are broadcast; rays that are not finite miss planes, too."""
    xml = '<mujoco><worldbody><geom type="plane" size="0 0 1"/></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    ground, down = door.scene(model).follow(data), [0.0, 0.0, -2.0]
    hits = ground.closest_hit([0, 0, 5], down, [[1.0], [3.0]], normals=True)
    assert hits.t.tolist() == [[np.inf], [2.5]]
    assert hits.normal is not None
    assert hits.normal.shape == (2, 1, 3)
    for far in ([0.0, 0.0, -np.inf], [0.0, np.nan, -1.0], [np.inf, 0.0, -1.0]):
        assert ground.closest_hit([0, 0, 5], far).geom_id == -1
    with pytest.raises(ValueError, match=r"leading shapes do not broadcast: .*t_max \(3,\)"):
        ground.closest_hit(np.zeros((2, 3)), down, np.ones(3))
    with pytest.raises(ValueError, match=r"directions must have shape \(..., 3\), got \(2,\)"):
        ground.closest_hit([0, 0, 5], [0, 0])
    with pytest.raises(ValueError, match=r"groups must have shape \(6,\), got \(2,\)"):
        ground.closest_hit([0, 0, 5], down, groups=[1, 0])
