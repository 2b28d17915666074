"""Pages follow their scene: what a client of the page is told, and how often; picks are current."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import BVH, Camera, Scene, view
from bvh.apps.viewer.drawing import PageFrame, drawing_of
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.apps.viewer.tracing import Tracer
from bvh.apps.viewer.window import TICK

BALL = trimesh.creation.icosphere(subdivisions=1)


def at(x: float, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    """Return a translation."""
    return np.asarray(trimesh.transformations.translation_matrix([x, y, z]))


def row_of_balls(count: int) -> tuple[Scene, BVH, np.ndarray]:
    """Return a scene of one tree side by side, the tree and the ids."""
    tree, scene = BVH.from_mesh(BALL), Scene()
    return scene, tree, scene.add_many(tree, [at(3.0 * k) for k in range(count)])


def served(scene: Scene, **options: Any) -> tuple[Any, Any]:
    """Return the page of a scene and a client that has been shown it."""
    pytest.importorskip("viser")
    from tests.apps.page_client import PageClient

    viewer = view(scene, port=0, **options)
    return viewer, PageClient(viewer.url)


def shows(viewer: Any, client: Any, middles: Any) -> None:
    """Wait until the page shows meshes with these middles, and no others."""
    wanted = np.reshape(middles, (-1, 3))

    def same() -> bool:
        to_page = viewer._frame.to_page
        expected = to_page(wanted).astype(np.float32)
        found = client.places()
        expected = expected[np.lexsort(expected.T)]
        return found.shape == expected.shape and np.allclose(found, expected, atol=1e-5)

    client.until(same, f"meshes at {wanted.tolist()}")


def test_a_page_follows_all_changes() -> None:
    """Instances that move, come, go, are hidden or get another child; trees that are refitted."""
    scene, tree, ids = row_of_balls(3)
    viewer, client = served(scene)
    with viewer, client:
        shows(viewer, client, [[0, 0, 0], [3, 0, 0], [6, 0, 0]])
        scene.set_transform(int(ids[1]), at(3, 4, 5))
        shows(viewer, client, [[0, 0, 0], [3, 4, 5], [6, 0, 0]])
        scene.set_transforms(ids[:2], [at(1), at(2)])
        shows(viewer, client, [[1, 0, 0], [2, 0, 0], [6, 0, 0]])
        scene.set_visible(ids[0], False)
        shows(viewer, client, [[2, 0, 0], [6, 0, 0]])
        scene.set_visible(ids[0], True)
        added = scene.add(tree, at(9))
        shows(viewer, client, [[1, 0, 0], [2, 0, 0], [6, 0, 0], [9, 0, 0]])
        assert len(client.meshes()) == 1
        scene.remove(ids[:2])
        shows(viewer, client, [[6, 0, 0], [9, 0, 0]])
        scene.replace(added, trimesh.creation.box())
        client.until(
            lambda: sorted(len(mesh["faces"]) for mesh in client.meshes()) == [36, 240], "the box"
        )
        shows(viewer, client, [[6, 0, 0], [9, 0, 0]])
        told = "92 triangles in 2 instances"
        client.until(lambda: any(told in text for text in client.html.values()), told)
        # Refitted, it is another mesh of the same faces, around another middle.
        tree.refit(tree.vertices + [0, 0, 7])
        shows(viewer, client, [[6, 0, 7], [9, 0, 0]])
        # Sheared, its vertices are those on the page.
        shear = at(0)
        shear[0, 1] = 1.0
        scene.set_transform(added, shear)
        client.until(lambda: (client.places() == 0.0).all(axis=1).any(), "the sheared box")
        scene.remove(scene.ids)
        shows(viewer, client, [])


@pytest.mark.parametrize("nested", [False, True])
def test_a_page_of_nothing_gets_something(nested: bool) -> None:
    """A page that was opened of an empty scene shows what is added, however large, in full."""
    scene, inner = Scene(), Scene()
    if nested:
        scene.add(inner, at(5e4))
    viewer, client = served(scene)
    with viewer, client:
        (inner if nested else scene).add(BALL, np.diag([1e5, 1e5, 1e5, 1.0]))
        client.until(client.meshes, "the mesh")
        middle = 5e4 if nested else 0.0
        shows(viewer, client, [[middle, 0, 0]])
        camera = client.until(lambda: viewer.camera, "the camera")
        client.until(lambda: viewer.camera.eye[2] > 1e5 or viewer.camera.eye[0] > 1e5, "its eye")
        assert np.isfinite(camera.eye).all()
        # What flies off is still in the picture's range.
        (inner if nested else scene).set_transform(0, at(1e9))
        client.until(lambda: abs(client.places()).max() < 2.0, "another frame")


def test_no_storm() -> None:
    """However fast a scene changes, a page gets one update a tick, and only what has changed."""
    scene, _, ids = row_of_balls(50)
    viewer, client = served(scene)
    with viewer, client:
        shows(viewer, client, [[3 * k, 0, 0] for k in range(50)])
        vertices = client.meshes()[0]["vertices"]
        began, before, size = time.perf_counter(), client.updates, client.bytes
        for k in range(5000):
            scene.set_transform(int(ids[k % 50]), at(3 * (k % 50), k))
        shows(viewer, client, [[3 * k, 4950 + k, 0] for k in range(50)])
        seconds = time.perf_counter() - began
        updates = client.updates - before
        assert 1 <= updates <= 2 + seconds / TICK
        # Positions alone: neither vertices, rotations nor scales.
        assert client.bytes - size < 50 * 12 * (updates + 1) + 2000 * (updates + 1)
        assert client.meshes()[0]["vertices"] is vertices
        # Changes of another scene are none of this one.
        before = client.updates
        Scene().add(BALL)
        time.sleep(5 * TICK)
        assert client.updates == before


def test_picks_are_of_the_scene_as_it_is() -> None:
    """A click right after a change is answered for the changed scene."""
    scene, _, ids = row_of_balls(2)
    viewer, client = served(scene)
    with viewer, client:
        shows(viewer, client, [[0, 0, 0], [3, 0, 0]])
        for k in range(6):
            near = k % 2
            scene.set_transform(int(ids[near]), at(0, 0, 10.0 * k))
            middle = viewer._frame.to_page([0, 0, 0])
            client.send(
                "ScenePointerMessage", event_type="click", screen_pos=((0.5, 0.5),), modifier=None,
                ray_origin=(middle + [0, 0, 50.0]).tolist(), ray_direction=(0.0, 0.0, -1.0),
            )  # fmt: skip
            client.until(
                lambda near=near: viewer.pick is not None and viewer.pick.instance_id == ids[near],
                "the pick",
            )
            assert viewer.pick.position[2] == pytest.approx(10.0 * k + 1.0, abs=0.1)
            wanted = scene.closest_hit([0, 0, 1e3], [0, 0, -1])
            assert viewer.pick.prim_id == wanted.prim_id


def test_changes_beside_a_page(rng: np.random.Generator) -> None:
    """One thread changes and asks a scene while its page follows: both agree with a plain one."""
    scene, tree, ids = row_of_balls(20)
    box = BVH.from_mesh(trimesh.creation.box())
    viewer, client = served(scene)
    plain = {int(k): (tree, at(3.0 * k)) for k in ids}
    with viewer, client:
        client.until(client.meshes, "the meshes")
        for _ in range(300):
            what, number = rng.integers(5), int(rng.choice(list(plain)))
            place = at(*rng.uniform(-9, 9, 3))
            child = (tree, box)[rng.integers(2)]
            if what == 0:
                plain[scene.add(child, place)] = child, place
            elif what == 1 and len(plain) > 1:
                scene.remove(number)
                del plain[number]
            elif what == 2:
                scene.replace(number, child)
                plain[number] = child, plain[number][1]
            else:
                scene.set_transform(number, place)
                plain[number] = plain[number][0], place
            if what == 4:
                other = Scene()
                for each, matrix in plain.values():
                    other.add(each, matrix)
                rays = rng.uniform(-9, 9, (50, 3)), rng.normal(size=(50, 3))
                mine, wanted = scene.closest_hit(*rays), other.closest_hit(*rays)
                assert np.array_equal(mine.t, wanted.t)
                assert np.array_equal(mine.prim_id, wanted.prim_id)
        shows(viewer, client, [matrix[:3, 3] for _, matrix in plain.values()])
        assert scene.ids.tolist() == sorted(plain)


def same_answers(one: Scene, other: Scene, rng: np.random.Generator) -> None:
    """Compare two scenes: leaves, paths, names and hits."""
    assert one.ids.tolist() == other.ids.tolist() and len(one.leaves) == len(other.leaves)
    for mine, theirs in zip(one.leaves, other.leaves, strict=True):
        assert mine.path == theirs.path and mine.tree is theirs.tree
        assert mine.name == theirs.name and mine.mask == theirs.mask
        assert np.array_equal(mine.transform, theirs.transform)
    rays = rng.uniform(-9, 9, (64, 3)), rng.normal(size=(64, 3))
    found, wanted = one.closest_hit(*rays), other.closest_hit(*rays)
    for name in ("t", "prim_id", "instance_id", "leaf"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


def test_a_copy_follows_nested_scenes(rng: np.random.Generator) -> None:
    """Whatever is changed, in whichever of the nested scenes, the copy is the same afterwards."""
    trees = [BVH.from_mesh(BALL), BVH.from_mesh(trimesh.creation.box())]
    inner, middle, outer = Scene(), Scene(), Scene()
    for scene, child in ((inner, trees[0]), (middle, inner), (outer, middle), (outer, trees[1])):
        scene.add_many(child, [at(*rng.uniform(-5, 5, 3)) for _ in range(3)], ["a", None, "b"])
    copy = SceneCopy(outer)
    for _ in range(120):
        scene = (inner, middle, outer)[rng.integers(3)]
        what, number = rng.integers(7), int(rng.choice(scene.ids))
        if what == 0:
            scene.add(trees[rng.integers(2)], at(*rng.uniform(-5, 5, 3)), name="new")
        elif what == 1 and len(scene) > 2:
            scene.remove(number)
        elif what == 2:
            scene.replace(number, trees[rng.integers(2)])
        elif what == 3:
            scene.set_visible(number, bool(rng.integers(2)))
        elif what == 4:
            scene.rename(number, f"name {rng.integers(9)}")
        elif what == 5:
            trees[0].refit(BALL.vertices * rng.uniform(0.5, 2.0))
        else:
            scene.set_transform(number, at(*rng.uniform(-5, 5, 3)))
        if rng.integers(2):
            copy.follow()
            same_answers(copy.scene, outer, rng)
    copy.follow()
    version = copy.version
    Scene().add(trees[1])
    copy.follow()
    assert copy.version == version
    # The copy leaves tables with gaps as they are: the other thread may be using their rows.
    outer.remove(outer.ids[0])
    copy.follow()
    assert not outer._instances._is_compact
    same_answers(copy.scene, outer, rng)


def test_a_copy_beside_a_thread_of_changes() -> None:
    """A copy made while another thread changes the scene is a scene that there was."""
    scene, tree, ids = row_of_balls(64)
    scene.set_transforms(ids, [at(0)] * len(ids))
    ended = threading.Event()

    def change() -> None:
        k = 0
        while not ended.is_set():
            k += 1
            scene.set_transforms(ids, [at(k)] * len(ids))
            scene.remove(scene.add(tree, at(k)))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        copy = SceneCopy(scene)
        for _ in range(200):
            copy.follow()
            # All in one place, or what was added before the others came.
            places = copy.scene.leaves.matrices[:64, 0, 3]
            assert len(copy.scene) in (64, 65) and np.ptp(places) == 0.0
    finally:
        ended.set()
        thread.join()


def test_changes_count_before_their_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of two changes in quick succession once scheduled two fine pictures."""
    camera = Camera.look_at([3.0, 2.0, 1.0], [0.0, 0.0, 0.0], width=40, height=30)
    tracer = Tracer(SceneCopy(Scene()), lambda: camera, lambda *_: None, 1)
    tracer.choose("normals")
    # No thread begins: what `changed` does itself.
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    for fine, abandoned in ((1.0, 1), (0.0, 0)):
        before, moves, tracer._fine = tracer._timer, tracer._moves, fine
        tracer.changed()
        assert before.finished.is_set() and not tracer._timer.finished.is_set()
        assert tracer._moves == moves + abandoned and tracer._fine == 0.0
    tracer.close()
    assert tracer._timer.finished.is_set()


def test_drawings_share_what_is_the_same() -> None:
    """What has not changed is the same object as in the drawing before."""
    scene, tree, ids = row_of_balls(3)
    scene.add(trimesh.creation.box())
    frame = PageFrame.around(scene.bounds)
    first = drawing_of(scene, frame)
    scene.set_transform(int(ids[0]), at(1))
    second = drawing_of(scene, frame, before=first)
    for old, new in zip(first.parts, second.parts, strict=True):
        assert old.vertices is new.vertices and old.faces is new.faces
        assert (old.copies.maps is new.copies.maps) == (new.tree is not tree)
    tree.refit(2.0 * tree.vertices)
    third = drawing_of(scene, frame, before=second)
    changed = {part.tree is tree: part for part in third.parts}
    assert not any(changed[True].vertices is part.vertices for part in second.parts)
    assert any(changed[False].vertices is part.vertices for part in second.parts)


def test_quaternions(rng: np.random.Generator) -> None:
    """They turn as their matrices do, whichever of their numbers are zero."""
    turns = [trimesh.transformations.random_rotation_matrix(r) for r in rng.random((40, 3))]
    turns += [np.eye(4), *(np.diag([*row, 1.0]) for row in 2 * np.eye(3) - 1)]
    scene = Scene()
    scene.add_many(BVH.from_mesh(BALL), turns)
    (part,) = drawing_of(scene, PageFrame.around(scene.bounds)).parts
    for wxyz, matrix in zip(part.copies.turns, turns, strict=True):
        again = trimesh.transformations.quaternion_matrix(wxyz)
        np.testing.assert_allclose(again, matrix, atol=1e-14)


def test_hidden_instances_stay_hidden() -> None:
    """In the copy that pages ask; the scene is only read, not compacted, and decides the rest."""
    scene = Scene()
    ball = BVH.from_mesh(trimesh.creation.icosphere(subdivisions=1))
    ids = [scene.add(ball) for _ in range(4)]
    copy = SceneCopy(scene)
    copy.hide(ids[1])
    scene.remove(ids[0])
    copy.follow()
    assert scene._instances.column("child").min() == -1
    assert [one.visible for one in copy.scene] == [False, True, True]
    scene.set_visible(ids[2], False)
    copy.follow()
    assert [one.visible for one in copy.scene] == [False, False, True]
    copy.hide(ids[1])
    assert [one.visible for one in copy.scene] == [True, False, True]
    assert scene[ids[1]].visible


def test_a_slider_has_its_range_before_it_is_shown() -> None:
    """A key pressed on the slider of levels, as soon as it is visible, is not lost."""
    scene = Scene()
    # A tree of more than one level.
    scene.add(trimesh.creation.icosphere(subdivisions=3))
    viewer, client = served(scene)
    with viewer, client:
        client.until(lambda: viewer._sessions and client.html, "the page")
        boxes = next(iter(viewer._sessions.values()))._boxes
        boxes._of_tree.value = "tree"
        level = boxes._level._impl.uuid
        client.until(lambda: (level, "visible", True) in client.changes, "the slider")
        shown = client.changes.index((level, "visible", True))
        assert any(change[:2] == (level, "max") for change in client.changes[:shown])


def test_selections_are_added_to_what_is_left() -> None:
    """Leaves have other numbers after instances were removed; the selection stays with its own."""
    box, scene = BVH.from_mesh(trimesh.creation.box()), Scene()
    ids = [scene.add(tree, at(3.0 * k)) for k, tree in enumerate((box, BVH.from_mesh(BALL), box))]
    viewer, client = served(scene)
    with viewer, client:
        session = client.until(lambda: next(iter(viewer._sessions.values()), None), "the page")
        selecting = session.selecting
        selecting._visible_only.value = False
        all_of_it, nothing = [[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [0.001, 0.001]]
        selecting.select(all_of_it)
        assert [len(viewer.selection[k]) for k in range(3)] == [12, len(BALL.faces), 12]
        scene.remove(ids[0])
        for mode in ("add", "remove"):
            selecting.select(nothing, mode)
            found = viewer.selection
            assert found.leaf.tolist() == [0, 1] and found.instance_id.tolist() == ids[1:]
            assert [len(found[k]) for k in range(2)] == [len(BALL.faces), 12]
            assert [each.path for each in selecting._marked] == [(k,) for k in ids[1:]]
        scene.replace(ids[1], box)
        selecting.select(all_of_it, "remove")
        assert len(viewer.selection) == 0


def test_measures_of_what_is_left() -> None:
    """A pick of an instance that was removed is forgotten: the next one is the first again."""
    scene, _, ids = row_of_balls(3)
    viewer, client = served(scene)
    with viewer, client:
        session = client.until(lambda: next(iter(viewer._sessions.values()), None), "the page")
        session.measuring._between.value = "two instances"
        for number in (0, 1, 2):
            session.pick_along(session.frame.to_page([3.0 * number, 0.0, 9.0]), [0.0, 0.0, -1.0])
            assert viewer.pick is not None and viewer.pick.instance_id == ids[number]
            assert ("Click the other one" in session.measuring._text.content) == (number < 2)
            scene.remove(ids[number]) if number == 0 else None
        assert "Distance" in session.measuring._text.content
