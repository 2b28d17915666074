"""Results that 0.2.0 pickled, whose classes were one for trees and one for scenes."""

import base64
import pickle
import zlib

import numpy as np
import pytest

import bvh

# {"tree": [...], "scene": [...]}: the answers of `asked`, and distances and pairs.
PICKLED = (
    "c-rMwzfTlF6yDi8!pVUU6oZ9U7TByBjlo27=oK0-L4q|Qd$)6$g=6=e-Njs@5eq<)=@<*Ou%a-ze}KluMr#u"
    "bW5J(5X{WO@yLY#j8Fr6EL&6jc3*US5=KJ1{*~q_j$2GoQ(ixKXF@$u9{dTUpj*Mpk#5VK{485S?dz9oK*=*"
    "aTS6|Z*4tz>3IKf)8Wh~cR42?AgvrUZ67A2$07}i|J^Knq~nGG4@NJ@qsOF(vMMcbrhP^H^+k<L^=Mc<@oln"
    "hyZs|iCBy*^8K-iZI^2)Ik<=jR{)VT=E$Xg;m(lqW>|=jX(J_=>VWli?<|*OqOIq9QsQo`WWOPnjaReXHvmU"
    "6gq)g#N;B?hynEU(+mx_wT~>tt4XjEn)!cM_AnC>wD5-sE%F7SI1nv(aXmRDIYq}LSI1@<w&vY296J{gl?#y"
    "j!MQQx+KS6>0=1Z48{+-HW)kTwj6)2b7z)gt_3}+ju!}r5!#2IpB2sd9KPRZB)ODu1B7)xwv_P=#61f!-zxr"
    "MT+E+}w-^`mrs4|-z5ozK;@0aPlv0q3iexseNTwr>G|;yTialhqS`HcI1df#(uE$tkaBZizl@u)7^G&A)X?k"
    "w{{It0Ad4Gy?MhZ>WvwhojWQLX87B{^f)0a%Ecpa3Idn8**+IMi7)Bd0|SlSCb=dJK$9pZ-B95C|~!hT4R4S"
    "f`Xk;}bfz;wLl5PL?g0Zklg#U{c?x%<(HZ0}*zKQz=nN)>IeH8+SVK^3y(t3ij)GsfVVr{TwGX@o`F5%r`Vf"
    "&EdFJd?7X5zLcvBAPCziP@DRE0k=(u1sczB1?_SF`OP3=BgT}M@8I`XO!!bWnxL&T4o8=)2m+^vF~SYgJS<u"
    "N|gp=?RI+K-tBf7gpJwFAZ$X2NiKwZ@}a$Snm6t|Fn)cFXl@^W&K;JL`^lPf|4@K2E<mOcD!uthO{@`quLaY"
    "_-AgHsV_vp0A1DV)UmOW!&s+Hi8IQ7F@;*p=4@c*<rRP<0+sAr79M!)6GdnOa{sQRvxo7"
)  # fmt: skip
RAYS = [[0.2, 0.3, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0]
LIFT = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2], [0, 0, 0, 1]])


def answers(target: bvh.BVH | bvh.Scene) -> list[object]:
    """Return what was asked of a tree and a scene."""
    found: list[object] = [
        target.closest_hit(*RAYS), target.closest_hit(*RAYS, counters=True),
        target.all_hits(*RAYS), target.closest_point(RAYS[0]), target.overlap_sphere(RAYS[0], 5.0),
    ]  # fmt: skip
    if isinstance(target, bvh.Scene):
        return [*found, target.self_overlaps(), target.clearances()]
    return [*found, target.distance_to(target, LIFT)]


@pytest.mark.parametrize("kind", ["tree", "scene"])
def test_pickles_of_0_2_0(kind: str) -> None:
    """They load as the classes of today, with the same fields."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    scene = bvh.Scene()
    scene.add(tree), scene.add(tree, np.diag([2.0, 2.0, 2.0, 1.0]))
    wanted = answers(tree if kind == "tree" else scene)
    loaded = pickle.loads(zlib.decompress(base64.b85decode(PICKLED)))[kind]
    for found, now in zip(loaded, wanted, strict=True):
        assert type(found) is type(now) and repr(found) == repr(now)
        again = pickle.loads(pickle.dumps(now))
        assert vars(found).keys() == vars(again).keys()
        for name, column in vars(found).items():
            np.testing.assert_array_equal(column, getattr(now, name), name)


def test_old_names() -> None:
    """Names of 0.2.0 are aliases."""
    assert bvh.SceneHits is bvh.CountedHits is bvh.CountedSceneHits is bvh.Hits
    assert bvh.SceneAllHits is bvh.AllHits and bvh.SceneOverlaps is bvh.Overlaps
    assert bvh.SceneClosestPoints is bvh.ClosestPoints
    assert bvh.SceneClearances is bvh.Clearances
