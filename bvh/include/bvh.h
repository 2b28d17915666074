/* Kernels of raybvh as functions of C: made by .ci/objects.py.

   Each takes one struct: a status and an error, results, then arguments. The status is 0: only
   users' functions in Python raise errors. Arrays are in C order, and borrowed. Kernels check
   nothing: what they expect is said by the functions of the same names, without `bvh_`, in the
   modules that comments name. Of libraries there is one for each level of CPUs, with vectors of its
   width. */

#ifndef BVH_H
#define BVH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A float in a word. */
typedef struct { float value; int32_t unused; } bvh_f4;

/* bvh.geometry.boxes */

typedef struct {
    double *data;
    int64_t shape[2];
} bvh_f8_2d;

typedef struct {
    double *data;
    int64_t shape[1];
} bvh_f8_1d;

typedef struct {
    bvh_f8_2d _0;
    bvh_f8_2d _1;
    bvh_f8_1d _2;
    bvh_f8_1d _3;
} bvh_Tuple;

typedef struct {
    uint8_t *data;
    int64_t shape[1];
} bvh_b1_1d;

typedef struct {
    bvh_b1_1d hit;
    bvh_f8_1d t_near;
    bvh_f8_1d t_far;
} bvh_BoxHit;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple rays;
    bvh_f8_2d boxes[2];
    bvh_BoxHit hits;
} bvh_ray_box_words;
void bvh_ray_box(bvh_ray_box_words *words);

/* bvh.geometry.obbs */

typedef struct {
    double *data;
    int64_t shape[3];
} bvh_f8_3d;

typedef struct {
    int8_t *data;
    int64_t shape[1];
} bvh_i1_1d;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d matrices;
    bvh_f8_3d rows;
    bvh_i1_1d status;
} bvh_invert_words;
void bvh_invert(bvh_invert_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple rays;
    bvh_f8_2d obbs[3];
    bvh_BoxHit hits;
} bvh_ray_obb_words;
void bvh_ray_obb(bvh_ray_obb_words *words);

/* bvh.geometry.pairs.common_polygons */

typedef struct {
    int32_t *data;
    int64_t shape[2];
} bvh_i4_2d;

typedef struct {
    bvh_f8_2d _0;
    bvh_i4_2d _1;
} bvh_Tuple_2;

typedef struct {
    int64_t *data;
    int64_t shape[2];
} bvh_i8_2d;

typedef struct {
    int64_t *data;
    int64_t shape[1];
} bvh_i8_1d;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple_2 own;
    bvh_Tuple_2 other;
    bvh_i4_2d pairs;
    bvh_i8_2d scratch;
    bvh_f8_2d corners;
    bvh_i8_1d starts;
    bvh_i8_1d sizes;
} bvh_common_polygons_words;
void bvh_common_polygons(bvh_common_polygons_words *words);

/* bvh.geometry.pairs.edge_segments */

typedef struct {
    int8_t *data;
    int64_t shape[2];
} bvh_i1_2d;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    int64_t result_1;
    int64_t result_2;
    bvh_Tuple_2 own;
    bvh_Tuple_2 other;
    bvh_i4_2d pairs;
    bvh_i1_1d shared;
    bvh_i1_2d signs;
    bvh_i8_1d rows;
    bvh_i1_2d codes;
    bvh_f8_3d points;
} bvh_edge_segments_words;
void bvh_edge_segments(bvh_edge_segments_words *words);

typedef struct {
    int32_t *data;
    int64_t shape[1];
} bvh_i4_1d;

typedef struct {
    bvh_i4_2d _0;
    bvh_i4_1d _1;
} bvh_Tuple_3;

typedef struct {
    int32_t *data;
    int64_t shape[3];
} bvh_i4_3d;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i1_2d codes;
    bvh_i4_2d pairs;
    bvh_Tuple_3 first;
    bvh_Tuple_3 second;
    bvh_i4_3d edges;
    bvh_i4_2d ends;
} bvh_identify_ends_words;
void bvh_identify_ends(bvh_identify_ends_words *words);

/* bvh.geometry.pairs.face_contacts */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple_2 own;
    bvh_Tuple_2 other;
    bvh_i4_2d pairs;
    bvh_i1_1d kinds;
    bvh_b1_1d used;
    bvh_b1_1d used2;
} bvh_kinds_of_contact_words;
void bvh_kinds_of_contact(bvh_kinds_of_contact_words *words);

/* bvh.geometry.pairs.round_gaps */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d corners;
    bvh_f8_1d radii;
    bvh_i8_1d rows;
    bvh_f8_3d others;
    bvh_f8_1d other_radii;
    bvh_i8_1d other_rows;
    bvh_f8_2d found;
} bvh_find_gaps_words;
void bvh_find_gaps(bvh_find_gaps_words *words);

/* bvh.geometry.planes */

typedef struct {
    bvh_b1_1d hit;
    bvh_f8_1d t;
} bvh_PlaneHit;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple rays;
    bvh_f8_2d planes[2];
    int64_t cull;
    bvh_PlaneHit hits;
} bvh_ray_plane_words;
void bvh_ray_plane(bvh_ray_plane_words *words);

/* bvh.geometry.spheres */

typedef struct {
    bvh_b1_1d hit;
    bvh_f8_1d t_near;
    bvh_f8_1d t_far;
} bvh_SphereHit;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple rays;
    bvh_f8_2d balls[2];
    bvh_SphereHit hits;
} bvh_ray_sphere_words;
void bvh_ray_sphere(bvh_ray_sphere_words *words);

/* bvh.geometry.transforms */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d maps;
    bvh_b1_1d found;
} bvh_find_mirrored_words;
void bvh_find_mirrored(bvh_find_mirrored_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d maps;
    bvh_f8_1d found;
} bvh_find_scales_words;
void bvh_find_scales(bvh_find_scales_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_3d maps;
    bvh_i1_1d status;
} bvh_judge_words;
void bvh_judge(bvh_judge_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_1d maps;
    bvh_f8_2d points;
    bvh_f8_2d out;
} bvh_move_words;
void bvh_move(bvh_move_words *words);

/* bvh.geometry.triangles */

typedef struct {
    bvh_b1_1d hit;
    bvh_f8_1d t;
    bvh_f8_1d u;
    bvh_f8_1d v;
} bvh_TriangleHit;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Tuple rays;
    bvh_f8_2d triangles[3];
    int64_t cull;
    bvh_TriangleHit hits;
} bvh_ray_triangle_words;
void bvh_ray_triangle(bvh_ray_triangle_words *words);

/* bvh.io.polygons */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d points;
    bvh_i4_1d corners;
    bvh_i8_1d offsets;
    bvh_i8_1d rows;
    int64_t begin;
    int64_t end;
    bvh_i4_2d faces;
    bvh_i8_2d scratch;
    bvh_f8_2d plane;
} bvh_fill_words;
void bvh_fill(bvh_fill_words *words);

/* bvh.io.untrusted */

typedef struct {
    uint8_t *data;
    int64_t shape[1];
} bvh_u1_1d;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_i4_2d rows;
    int64_t min_id;
    int64_t begin;
    int64_t end;
    bvh_u1_1d valid;
} bvh_check_ids_words;
void bvh_check_ids(bvh_check_ids_words *words);

typedef struct {
    float *data;
    int64_t shape[1];
} bvh_f4_1d;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    int64_t result_1;
    bvh_f4_1d blocks;
    bvh_f4 limit;
    int64_t deepest;
    bvh_i1_1d level;
    bvh_u1_1d owned;
} bvh_check_nodes_words;
void bvh_check_nodes(bvh_check_nodes_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_2d points;
    bvh_i4_2d faces;
    int64_t begin;
    int64_t end;
    bvh_u1_1d valid;
    bvh_f8_1d bounds;
} bvh_survey_words;
void bvh_survey(bvh_survey_words *words);

/* bvh.kernels */

typedef struct {
    bvh_f4_1d data;
    bvh_i4_2d rows;
} bvh_WideNodes;

typedef struct {
    bvh_f8_2d points;
    bvh_i4_2d faces;
} bvh_Triangles;

typedef struct {
    bvh_WideNodes nodes;
    bvh_f4_1d groups;
    bvh_Triangles primitives;
    bvh_f8_2d frame;
    bvh_i4_2d face_bits;
} bvh_TreeArrays;

typedef struct {
    double _0[3];
    double _1[3];
    double _2;
    double _3;
} bvh_Tuple_4;

typedef struct {
    int64_t kernel_status, kernel_error;
    double result_0;
    int64_t result_1;
    double result_2;
    double result_3;
    int64_t result_4;
    bvh_TreeArrays arrays;
    bvh_Tuple_4 ray;
} bvh_cast_words;
void bvh_cast(bvh_cast_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    double result_0;
    int64_t result_1;
    double result_2;
    double result_3;
    bvh_TreeArrays arrays;
    double point[3];
    double limit;
} bvh_closest_point_words;
void bvh_closest_point(bvh_closest_point_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TreeArrays arrays;
    bvh_Tuple_4 ray;
    bvh_f8_1d t;
    bvh_i4_1d prim_id;
} bvh_fill_first_hits_words;
void bvh_fill_first_hits(bvh_fill_first_hits_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TreeArrays arrays;
    bvh_Tuple_4 ray;
} bvh_is_hit_words;
void bvh_is_hit(bvh_is_hit_words *words);

/* bvh.picking.outlines */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d outline;
    bvh_f8_2d points;
    int64_t first;
    int64_t last;
    bvh_i1_1d locations;
} bvh_judge_points_words;
void bvh_judge_points(bvh_judge_points_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d outline;
    int64_t convex;
    int64_t want_inside;
    bvh_f8_2d points;
    bvh_i1_1d locations;
    bvh_i4_2d faces;
    int64_t first;
    int64_t last;
    bvh_i1_1d verdicts;
} bvh_judge_triangles_words;
void bvh_judge_triangles(bvh_judge_triangles_words *words);

/* bvh.picking.rounds */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d rounds;
    bvh_f8_1d planes;
    int64_t size;
    int64_t flat;
    int64_t deeper;
    int64_t begin;
    int64_t end;
    int64_t first;
    int64_t last;
    bvh_i1_1d verdicts;
} bvh_judge_rounds_words;
void bvh_judge_rounds(bvh_judge_rounds_words *words);

/* bvh.scene.leaves */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d outer;
    bvh_f8_3d linear;
    bvh_f8_3d inner;
    bvh_f8_3d out;
} bvh_compose_all_words;
void bvh_compose_all(bvh_compose_all_words *words);

/* bvh.scene.scene_view */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i8_1d rows;
    bvh_f8_3d maps;
    bvh_f8_3d inverses;
    bvh_f8_2d boxes;
    bvh_f8_2d frame;
    bvh_f8_3d frames;
    bvh_f8_2d skews;
    bvh_i4_1d tree_of;
    bvh_f8_1d transforms;
} bvh_fill_transforms_words;
void bvh_fill_transforms(bvh_fill_transforms_words *words);

/* bvh.surfaces.numbering */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i8_1d a;
    bvh_i8_1d b;
    bvh_i8_1d part;
} bvh_connect_words;
void bvh_connect(bvh_connect_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i8_2d rows;
    bvh_i4_1d table;
    bvh_i8_1d first;
} bvh_match_rows_words;
void bvh_match_rows(bvh_match_rows_words *words);

/* bvh.surfaces.overlap_terms */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d corners;
    bvh_i1_1d outward;
    bvh_i8_2d point_ids;
    bvh_i8_1d depths;
    bvh_i8_1d first;
    bvh_i8_1d rows;
    bvh_f8_2d table;
    bvh_f8_1d origin;
    int64_t e;
    bvh_f8_1d sums;
} bvh_add_faces_words;
void bvh_add_faces(bvh_add_faces_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d own;
    bvh_f8_3d other;
    bvh_i1_1d outward;
    bvh_i1_1d outward2;
    bvh_i4_2d pairs;
    bvh_f8_2d points;
    bvh_f8_1d origin;
    int64_t e;
    bvh_f8_1d sums;
} bvh_add_segments_words;
void bvh_add_segments(bvh_add_segments_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i8_1d rows;
    bvh_f8_2d shares;
    bvh_f8_1d signs;
    bvh_f8_2d table;
} bvh_add_shares_words;
void bvh_add_shares(bvh_add_shares_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d edges;
    bvh_f8_3d faces;
    bvh_f8_1d origin;
    int64_t e;
    bvh_f8_2d shares;
    bvh_f8_2d points;
} bvh_find_crossings_words;
void bvh_find_crossings(bvh_find_crossings_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i8_2d point_ids;
    bvh_i8_1d first;
    bvh_i8_1d changes;
    bvh_i8_1d parents;
    bvh_i8_1d steps;
} bvh_join_points_words;
void bvh_join_points(bvh_join_points_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d own;
    bvh_f8_3d other;
    bvh_i4_2d pairs;
    bvh_i8_1d axes;
    bvh_i1_1d turns;
    bvh_i1_2d signs;
} bvh_move_apart_words;
void bvh_move_apart(bvh_move_apart_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d corners;
    int64_t e;
    bvh_f8_1d sums;
} bvh_sum_areas_words;
void bvh_sum_areas(bvh_sum_areas_words *words);

/* bvh.surfaces.pair_signs */

typedef struct {
    uint64_t *data;
    int64_t shape[1];
} bvh_u8_1d;

typedef struct {
    bvh_f8_3d corners;
    bvh_i1_1d outward;
    bvh_i8_2d twins;
    bvh_i1_2d bends;
    bvh_i8_1d pieces;
    bvh_u8_1d hashes;
} bvh_Joints;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_Joints first;
    bvh_Joints second;
    bvh_i4_2d pairs;
    bvh_b1_1d met;
    bvh_b1_1d met2;
    bvh_b1_1d same;
    bvh_b1_1d same2;
    bvh_b1_1d undecided;
} bvh_cells_at_contacts_words;
void bvh_cells_at_contacts(bvh_cells_at_contacts_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_3d faces;
    bvh_f8_1d p;
    bvh_f8_1d q;
} bvh_count_crossings_words;
void bvh_count_crossings(bvh_count_crossings_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d edges;
    bvh_f8_3d faces;
    bvh_f8_2d points;
} bvh_crossing_points_words;
void bvh_crossing_points(bvh_crossing_points_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Joints joints;
} bvh_find_bends_words;
void bvh_find_bends(bvh_find_bends_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_3d own;
    bvh_f8_3d other;
    bvh_i4_2d pairs;
    bvh_i1_2d signs;
} bvh_pair_signs_words;
void bvh_pair_signs(bvh_pair_signs_words *words);

/* bvh.traversal.pairs.closest_pairs */

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_i8_1d row;
    bvh_i8_1d row2;
    bvh_i8_1d motions;
    bvh_f8_1d limits;
    bvh_i8_1d hints;
    bvh_i8_1d memory_table;
    int64_t end;
    int64_t steps;
    bvh_i8_1d found;
} bvh_closest_pairs_words;
void bvh_closest_pairs(bvh_closest_pairs_words *words);

/* bvh.traversal.pairs.meeting_pairs */

typedef struct {
    bvh_i8_1d state;
    bvh_i8_1d stack;
    bvh_f8_1d sides;
    bvh_f4_1d rows;
    bvh_i4_2d pairs;
} bvh_PairSearch;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_i8_1d rows;
    bvh_i8_1d rows2;
    bvh_i8_2d tasks;
    bvh_i8_1d motions;
    bvh_PairSearch pair_search;
    bvh_b1_1d touching;
    bvh_i4_1d enough;
    int64_t steps;
} bvh_find_contacts_words;
void bvh_find_contacts(bvh_find_contacts_words *words);

typedef struct {
    int64_t address;
} bvh_TriangleRow;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TriangleRow row;
    bvh_TriangleRow row2;
    bvh_i8_1d motions;
    int64_t leaf;
    int64_t leaf2;
    int64_t shared;
    bvh_PairSearch pair_search;
    int64_t steps;
} bvh_meet_words;
void bvh_meet(bvh_meet_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TriangleRow row;
    bvh_TriangleRow row2;
    bvh_i8_1d motions;
    int64_t leaf;
    int64_t leaf2;
    int64_t shared;
    bvh_PairSearch pair_search;
    int64_t wanted;
} bvh_split_words;
void bvh_split(bvh_split_words *words);

/* bvh.traversal.points.boundary_angles */

typedef struct {
    bvh_f8_2d points;
    bvh_u1_1d begins;
    bvh_f8_1d frame;
    bvh_f8_1d box;
    bvh_f8_1d around;
    int64_t size;
} bvh_Loops;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Loops loops;
    bvh_f8_2d points;
    bvh_f8_2d directions;
    int64_t begin;
    int64_t end;
    bvh_f8_1d found;
} bvh_add_boundary_words;
void bvh_add_boundary(bvh_add_boundary_words *words);

/* bvh.traversal.points.closest_point */

typedef struct {
    int64_t address;
} bvh_SceneRow;

typedef struct {
    bvh_SceneRow tree;
    bvh_f8_1d metrics;
    int64_t mask;
} bvh_SceneTarget;

typedef struct {
    bvh_i8_1d stack;
    bvh_f8_1d squares;
    bvh_f4_1d spare;
    bvh_f8_1d bounds;
    bvh_i8_1d names;
    bvh_f8_1d lows;
    bvh_i8_1d closest;
} bvh_PointScratch;

typedef struct {
    bvh_f8_1d distance;
    bvh_i8_1d names;
    bvh_f8_2d weights;
    bvh_f8_2d position;
} bvh_Nearest;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneTarget target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch scratch;
    int64_t begin;
    int64_t end;
    bvh_Nearest found;
} bvh_closest_points_SceneTarget_words;
void bvh_closest_points_SceneTarget(bvh_closest_points_SceneTarget_words *words);

typedef struct {
    bvh_TriangleRow tree;
    int64_t mask;
} bvh_TreeTarget;

typedef struct {
    bvh_i8_1d stack;
    bvh_f8_1d squares;
    bvh_f4_1d spare;
    bvh_f4_1d bounds;
    bvh_i4_1d names;
    bvh_f8_1d lows;
    bvh_i8_1d closest;
} bvh_PointScratch_2;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TreeTarget target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch_2 scratch;
    int64_t begin;
    int64_t end;
    bvh_Nearest found;
} bvh_closest_points_TreeTarget_words;
void bvh_closest_points_TreeTarget(bvh_closest_points_TreeTarget_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneTarget target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch scratch;
    int64_t begin;
    int64_t end;
    int64_t count;
    bvh_Nearest found;
} bvh_nearest_points_SceneTarget_words;
void bvh_nearest_points_SceneTarget(bvh_nearest_points_SceneTarget_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TreeTarget target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch_2 scratch;
    int64_t begin;
    int64_t end;
    int64_t count;
    bvh_Nearest found;
} bvh_nearest_points_TreeTarget_words;
void bvh_nearest_points_TreeTarget(bvh_nearest_points_TreeTarget_words *words);

/* bvh.traversal.points.parity */

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SceneRow tree_row;
    bvh_f8_2d points;
    bvh_i8_1d crossings;
    int64_t surface;
    bvh_u1_1d found;
    bvh_i8_1d near;
} bvh_decide_parity_SceneRow_words;
void bvh_decide_parity_SceneRow(bvh_decide_parity_SceneRow_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TriangleRow tree_row;
    bvh_f8_2d points;
    bvh_i8_1d crossings;
    int64_t surface;
    bvh_u1_1d found;
    bvh_i8_1d near;
} bvh_decide_parity_TriangleRow_words;
void bvh_decide_parity_TriangleRow(bvh_decide_parity_TriangleRow_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_1d corners;
    bvh_f8_2d ways;
    bvh_f8_2d points;
    bvh_f8_2d directions;
} bvh_write_ways_out_words;
void bvh_write_ways_out(bvh_write_ways_out_words *words);

/* bvh.traversal.points.shape_points */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneTarget target;
    bvh_f8_2d points;
    bvh_PointScratch scratch;
    int64_t begin;
    int64_t end;
    int64_t surface;
    bvh_u1_1d found;
} bvh_mark_around_SceneTarget_words;
void bvh_mark_around_SceneTarget(bvh_mark_around_SceneTarget_words *words);

typedef struct {
    int64_t address;
} bvh_CapsuleRow;

typedef struct {
    bvh_CapsuleRow tree;
    int64_t mask;
} bvh_TreeTarget_2;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TreeTarget_2 target;
    bvh_f8_2d points;
    bvh_PointScratch_2 scratch;
    int64_t begin;
    int64_t end;
    int64_t surface;
    bvh_u1_1d found;
} bvh_mark_around_TreeTarget_words;
void bvh_mark_around_TreeTarget(bvh_mark_around_TreeTarget_words *words);

typedef struct {
    int64_t address;
} bvh_SphereRow;

typedef struct {
    bvh_SphereRow tree;
    int64_t mask;
} bvh_TreeTarget_3;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TreeTarget_3 target;
    bvh_f8_2d points;
    bvh_PointScratch_2 scratch;
    int64_t begin;
    int64_t end;
    int64_t surface;
    bvh_u1_1d found;
} bvh_mark_around_TreeTarget_2_words;
void bvh_mark_around_TreeTarget_2(bvh_mark_around_TreeTarget_2_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneTarget target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch scratch;
    int64_t begin;
    int64_t end;
    int64_t count;
    bvh_Nearest found;
} bvh_nearest_shapes_SceneTarget_words;
void bvh_nearest_shapes_SceneTarget(bvh_nearest_shapes_SceneTarget_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TreeTarget_2 target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch_2 scratch;
    int64_t begin;
    int64_t end;
    int64_t count;
    bvh_Nearest found;
} bvh_nearest_shapes_TreeTarget_words;
void bvh_nearest_shapes_TreeTarget(bvh_nearest_shapes_TreeTarget_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TreeTarget_3 target;
    bvh_f8_2d points;
    bvh_f8_1d limits;
    bvh_PointScratch_2 scratch;
    int64_t begin;
    int64_t end;
    int64_t count;
    bvh_Nearest found;
} bvh_nearest_shapes_TreeTarget_2_words;
void bvh_nearest_shapes_TreeTarget_2(bvh_nearest_shapes_TreeTarget_2_words *words);

/* bvh.traversal.points.winding_number */

typedef struct {
    bvh_i8_1d codes;
    bvh_f4_1d terms;
    bvh_f8_1d corners;
    bvh_f8_2d frame;
} bvh_WindingTerms;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_WindingTerms tree;
    bvh_f8_2d points;
    double beta;
    int64_t begin;
    int64_t end;
    bvh_f8_1d found;
} bvh_winding_numbers_words;
void bvh_winding_numbers(bvh_winding_numbers_words *words);

/* bvh.traversal.points.world_metric */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i8_1d rows;
    bvh_f8_3d maps;
    bvh_f8_3d frames;
    bvh_i4_1d tree_of;
    bvh_f8_2d out;
} bvh_fill_metrics_words;
void bvh_fill_metrics(bvh_fill_metrics_words *words);

/* bvh.traversal.rays.closest_hit */

typedef struct {
    int64_t address;
} bvh_BoxRow;

typedef struct {
    bvh_f8_2d origins;
    bvh_f8_2d directions;
    bvh_f8_1d t_min;
    bvh_f8_1d t_max;
    bvh_i4_1d masks;
} bvh_Rays;

typedef struct {
    int64_t size;
    int64_t row;
    int64_t kernel;
    int64_t sort;
    bvh_i8_1d queue;
    int64_t chunks;
    int64_t queued;
    int64_t is_sorted;
    bvh_i8_1d permutation;
} bvh_Order;

typedef struct {
    bvh_f4_1d lanes;
    bvh_f8_1d doubles;
    bvh_i8_1d which;
} bvh_Block;

typedef struct {
    bvh_f4_1d memory;
    bvh_i8_1d spare;
} bvh_Slots;

typedef struct {
    bvh_f4_1d groups;
    bvh_f4_1d slot;
} bvh_Streams;

typedef struct {
    bvh_Block block;
    bvh_f8_1d state;
    bvh_i8_1d numbers;
    bvh_i8_1d places;
    bvh_i8_1d active;
    bvh_i8_1d failed;
} bvh_MovedRays;

typedef struct {
    bvh_Streams below;
    bvh_f4_1d groups;
    bvh_MovedRays moved;
} bvh_SceneStreams;

typedef struct {
    bvh_i8_1d keys;
    bvh_i8_1d counts;
    bvh_i8_1d permutation;
} bvh_Window;

typedef struct {
    bvh_Block block;
    bvh_Slots slots;
    bvh_i8_1d active;
    bvh_f8_1d measured;
    bvh_SceneStreams streams;
    bvh_Window window;
} bvh_Scratch;

typedef struct {
    int64_t any_hit;
    int64_t cull;
} bvh_ClosestGoal;

typedef struct {
    bvh_f8_1d t;
    bvh_i4_1d prim_id;
    bvh_f8_1d u;
    bvh_f8_1d v;
    bvh_u1_1d front;
} bvh_Columns;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_BoxRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_BoxRow_ClosestGoal_words;
void bvh_closest_hits_BoxRow_ClosestGoal(bvh_closest_hits_BoxRow_ClosestGoal_words *words);

typedef struct {
    int64_t any_hit;
    int64_t cull;
    bvh_i4_1d nodes;
    bvh_i4_1d tests;
} bvh_CountGoal;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_BoxRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_CountGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_BoxRow_CountGoal_words;
void bvh_closest_hits_BoxRow_CountGoal(bvh_closest_hits_BoxRow_CountGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CapsuleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_CapsuleRow_ClosestGoal_words;
void bvh_closest_hits_CapsuleRow_ClosestGoal(bvh_closest_hits_CapsuleRow_ClosestGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CapsuleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_CountGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_CapsuleRow_CountGoal_words;
void bvh_closest_hits_CapsuleRow_CountGoal(bvh_closest_hits_CapsuleRow_CountGoal_words *words);

typedef struct {
    int64_t address;
    int64_t intersect;
    int64_t data;
} bvh_CustomRow;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CustomRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_CustomRow_ClosestGoal_words;
void bvh_closest_hits_CustomRow_ClosestGoal(bvh_closest_hits_CustomRow_ClosestGoal_words *words);

typedef struct {
    int64_t address;
} bvh_ObbRow;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_ObbRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_ObbRow_ClosestGoal_words;
void bvh_closest_hits_ObbRow_ClosestGoal(bvh_closest_hits_ObbRow_ClosestGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_ObbRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_CountGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_ObbRow_CountGoal_words;
void bvh_closest_hits_ObbRow_CountGoal(bvh_closest_hits_ObbRow_CountGoal_words *words);

typedef struct {
    bvh_f8_1d t;
    bvh_i8_1d prim_id;
    bvh_f8_1d u;
    bvh_f8_1d v;
    bvh_u1_1d front;
} bvh_Columns_2;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns_2 columns;
} bvh_closest_hits_SceneRow_ClosestGoal_words;
void bvh_closest_hits_SceneRow_ClosestGoal(bvh_closest_hits_SceneRow_ClosestGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_CountGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns_2 columns;
} bvh_closest_hits_SceneRow_CountGoal_words;
void bvh_closest_hits_SceneRow_CountGoal(bvh_closest_hits_SceneRow_CountGoal_words *words);

typedef struct {
    bvh_f8_1d t;
    bvh_i8_1d prims;
    bvh_i8_1d counts;
} bvh_NearestHits;

typedef struct {
    int64_t any_hit;
    int64_t cull;
    int64_t once;
    int64_t max_hits;
    int64_t accept;
    int64_t data;
    bvh_NearestHits hits;
} bvh_FirstGoal;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns_2 columns;
} bvh_closest_hits_SceneRow_FirstGoal_words;
void bvh_closest_hits_SceneRow_FirstGoal(bvh_closest_hits_SceneRow_FirstGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SphereRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_SphereRow_ClosestGoal_words;
void bvh_closest_hits_SphereRow_ClosestGoal(bvh_closest_hits_SphereRow_ClosestGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SphereRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_CountGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_SphereRow_CountGoal_words;
void bvh_closest_hits_SphereRow_CountGoal(bvh_closest_hits_SphereRow_CountGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TriangleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_ClosestGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_TriangleRow_ClosestGoal_words;
void bvh_closest_hits_TriangleRow_ClosestGoal(bvh_closest_hits_TriangleRow_ClosestGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TriangleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_CountGoal goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_TriangleRow_CountGoal_words;
void bvh_closest_hits_TriangleRow_CountGoal(bvh_closest_hits_TriangleRow_CountGoal_words *words);

typedef struct {
    bvh_f8_1d t;
    bvh_i4_1d prims;
    bvh_i8_1d counts;
} bvh_NearestHits_2;

typedef struct {
    int64_t any_hit;
    int64_t cull;
    int64_t once;
    int64_t max_hits;
    int64_t accept;
    int64_t data;
    bvh_NearestHits_2 hits;
} bvh_FirstGoal_2;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TriangleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal_2 goal;
    int64_t begin;
    int64_t end;
    bvh_Columns columns;
} bvh_closest_hits_TriangleRow_FirstGoal_words;
void bvh_closest_hits_TriangleRow_FirstGoal(bvh_closest_hits_TriangleRow_FirstGoal_words *words);

/* bvh.traversal.rays.every_hit.all_hits */

typedef struct {
    bvh_i8_1d rays;
    bvh_i4_1d prims;
    bvh_i8_1d counts;
    int64_t capacity;
} bvh_FoundHits;

typedef struct {
    bvh_i4_1d codes;
    bvh_i4_1d rays;
    bvh_i4_1d node_codes;
    bvh_i4_1d node_rays;
    bvh_i4_1d leaf_codes;
    bvh_i4_1d leaf_rays;
} bvh_Visits;

typedef struct {
    int64_t cull;
    int64_t once;
    int64_t sided;
    int64_t listed;
    bvh_FoundHits hits;
    bvh_Visits visits;
} bvh_AllGoal;

typedef struct {
    int64_t accept;
    int64_t data;
    int64_t max_hits;
    int64_t listed;
    int64_t solved;
    int64_t kept;
} bvh_Wanted;

typedef struct {
    bvh_i8_1d which;
    bvh_Columns columns;
    bvh_i8_1d order;
    bvh_i8_1d starts;
} bvh_Pairs;

typedef struct {
    bvh_Pairs pairs;
    bvh_Columns out;
    bvh_i8_1d counts;
    bvh_i8_1d state;
} bvh_Gathered;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_BoxRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_BoxRow_AllGoal_words;
void bvh_gather_hits_BoxRow_AllGoal(bvh_gather_hits_BoxRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_BoxRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal_2 goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_BoxRow_FirstGoal_words;
void bvh_gather_hits_BoxRow_FirstGoal(bvh_gather_hits_BoxRow_FirstGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CapsuleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_CapsuleRow_AllGoal_words;
void bvh_gather_hits_CapsuleRow_AllGoal(bvh_gather_hits_CapsuleRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CapsuleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal_2 goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_CapsuleRow_FirstGoal_words;
void bvh_gather_hits_CapsuleRow_FirstGoal(bvh_gather_hits_CapsuleRow_FirstGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CustomRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_CustomRow_AllGoal_words;
void bvh_gather_hits_CustomRow_AllGoal(bvh_gather_hits_CustomRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_ObbRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_ObbRow_AllGoal_words;
void bvh_gather_hits_ObbRow_AllGoal(bvh_gather_hits_ObbRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_ObbRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal_2 goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_ObbRow_FirstGoal_words;
void bvh_gather_hits_ObbRow_FirstGoal(bvh_gather_hits_ObbRow_FirstGoal_words *words);

typedef struct {
    bvh_i8_1d rays;
    bvh_i8_1d prims;
    bvh_i8_1d counts;
    int64_t capacity;
} bvh_FoundHits_2;

typedef struct {
    int64_t cull;
    int64_t once;
    int64_t sided;
    int64_t listed;
    bvh_FoundHits_2 hits;
    bvh_Visits visits;
} bvh_AllGoal_2;

typedef struct {
    bvh_i8_1d which;
    bvh_Columns_2 columns;
    bvh_i8_1d order;
    bvh_i8_1d starts;
} bvh_Pairs_2;

typedef struct {
    bvh_Pairs_2 pairs;
    bvh_Columns_2 out;
    bvh_i8_1d counts;
    bvh_i8_1d state;
} bvh_Gathered_2;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal_2 goal;
    bvh_Wanted wanted;
    bvh_Gathered_2 gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_SceneRow_AllGoal_words;
void bvh_gather_hits_SceneRow_AllGoal(bvh_gather_hits_SceneRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered_2 gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_SceneRow_FirstGoal_words;
void bvh_gather_hits_SceneRow_FirstGoal(bvh_gather_hits_SceneRow_FirstGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SphereRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_SphereRow_AllGoal_words;
void bvh_gather_hits_SphereRow_AllGoal(bvh_gather_hits_SphereRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SphereRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal_2 goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_SphereRow_FirstGoal_words;
void bvh_gather_hits_SphereRow_FirstGoal(bvh_gather_hits_SphereRow_FirstGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TriangleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_AllGoal goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_TriangleRow_AllGoal_words;
void bvh_gather_hits_TriangleRow_AllGoal(bvh_gather_hits_TriangleRow_AllGoal_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_TriangleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_Order ray_order;
    bvh_Scratch thread_scratch;
    bvh_FirstGoal_2 goal;
    bvh_Wanted wanted;
    bvh_Gathered gathered;
    int64_t begin;
    int64_t end;
} bvh_gather_hits_TriangleRow_FirstGoal_words;
void bvh_gather_hits_TriangleRow_FirstGoal(bvh_gather_hits_TriangleRow_FirstGoal_words *words);

/* bvh.traversal.rays.hit_points */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_CapsuleRow tree_row;
    bvh_Rays ray_arrays;
    bvh_i8_1d which;
    bvh_i8_1d prims;
    bvh_f8_1d far;
} bvh_find_far_ends_CapsuleRow_words;
void bvh_find_far_ends_CapsuleRow(bvh_find_far_ends_CapsuleRow_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SceneRow tree_row;
    bvh_Rays ray_arrays;
    bvh_i8_1d which;
    bvh_i8_1d prims;
    bvh_f8_1d far;
} bvh_find_far_ends_SceneRow_words;
void bvh_find_far_ends_SceneRow(bvh_find_far_ends_SceneRow_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_SphereRow tree_row;
    bvh_Rays ray_arrays;
    bvh_i8_1d which;
    bvh_i8_1d prims;
    bvh_f8_1d far;
} bvh_find_far_ends_SphereRow_words;
void bvh_find_far_ends_SphereRow(bvh_find_far_ends_SphereRow_words *words);

typedef struct {
    bvh_f8_1d maps;
    bvh_f8_1d inverses;
    bvh_f8_1d transforms;
    bvh_i8_1d trees;
    bvh_i4_1d masks;
    bvh_i4_1d owners;
} bvh_Instanced;

typedef struct {
    bvh_i4_1d leaf;
    bvh_i4_1d prim_id;
    bvh_f8_1d u;
    bvh_f8_1d v;
} bvh_HitColumns;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Instanced primitives;
    bvh_HitColumns columns;
    int64_t begin;
    int64_t end;
    bvh_f8_1d position;
    bvh_f8_1d normal;
} bvh_locate_hits_Instanced_words;
void bvh_locate_hits_Instanced(bvh_locate_hits_Instanced_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Triangles primitives;
    bvh_HitColumns columns;
    int64_t begin;
    int64_t end;
    bvh_f8_1d position;
    bvh_f8_1d normal;
} bvh_locate_hits_Triangles_words;
void bvh_locate_hits_Triangles(bvh_locate_hits_Triangles_words *words);

/* bvh.traversal.rays.one_ray */

typedef struct {
    int64_t kernel_status, kernel_error;
    double result_0;
    int64_t result_1;
    double result_2;
    double result_3;
    int64_t result_4;
    int64_t address;
    double ox;
    double oy;
    double oz;
    double dx;
    double dy;
    double dz;
    double t_min;
    double t_max;
    int64_t options[3];
} bvh_cast_at_custom_words;
void bvh_cast_at_custom(bvh_cast_at_custom_words *words);

/* bvh.traversal.rays.ray_batch */

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_2d directions;
} bvh_row_length_words;
void bvh_row_length(bvh_row_length_words *words);

/* bvh.traversal.rays.sight_lines */

typedef struct {
    bvh_f8_2d directions;
    bvh_f8_1d t_min;
    bvh_f8_1d t_max;
    bvh_u1_1d finite;
} bvh_Lines;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d p;
    bvh_f8_2d q;
    double margin;
    int64_t begin;
    int64_t end;
    bvh_Lines lines;
} bvh_write_lines_words;
void bvh_write_lines(bvh_write_lines_words *words);

/* bvh.traversal.regions.region_search */

typedef struct {
    bvh_f8_2d lower;
    bvh_f8_2d upper;
} bvh_BoxRegions;

typedef struct {
    bvh_i8_1d state;
    bvh_i8_1d stack;
    bvh_f8_1d numbers;
} bvh_Search;

typedef struct {
    bvh_i8_1d query;
    bvh_i8_1d prim;
} bvh_Found;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_BoxRow row;
    bvh_BoxRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_BoxRow_BoxRegions_words;
void bvh_search_regions_BoxRow_BoxRegions(bvh_search_regions_BoxRow_BoxRegions_words *words);

typedef struct {
    bvh_f8_2d center;
    bvh_f8_1d radius;
} bvh_SphereRegions;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_BoxRow row;
    bvh_SphereRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_BoxRow_SphereRegions_words;
void bvh_search_regions_BoxRow_SphereRegions(bvh_search_regions_BoxRow_SphereRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_CapsuleRow row;
    bvh_BoxRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_CapsuleRow_BoxRegions_words;
void bvh_search_regions_CapsuleRow_BoxRegions(bvh_search_regions_CapsuleRow_BoxRegions_words *words);

typedef struct {
    bvh_f8_3d planes;
    bvh_i8_1d shape;
} bvh_PlaneRegions;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_CapsuleRow row;
    bvh_PlaneRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_CapsuleRow_PlaneRegions_words;
void bvh_search_regions_CapsuleRow_PlaneRegions(bvh_search_regions_CapsuleRow_PlaneRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_CapsuleRow row;
    bvh_SphereRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_CapsuleRow_SphereRegions_words;
void bvh_search_regions_CapsuleRow_SphereRegions(bvh_search_regions_CapsuleRow_SphereRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SceneRow row;
    bvh_BoxRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_SceneRow_BoxRegions_words;
void bvh_search_regions_SceneRow_BoxRegions(bvh_search_regions_SceneRow_BoxRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SceneRow row;
    bvh_PlaneRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_SceneRow_PlaneRegions_words;
void bvh_search_regions_SceneRow_PlaneRegions(bvh_search_regions_SceneRow_PlaneRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SceneRow row;
    bvh_SphereRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_SceneRow_SphereRegions_words;
void bvh_search_regions_SceneRow_SphereRegions(bvh_search_regions_SceneRow_SphereRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SphereRow row;
    bvh_BoxRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_SphereRow_BoxRegions_words;
void bvh_search_regions_SphereRow_BoxRegions(bvh_search_regions_SphereRow_BoxRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SphereRow row;
    bvh_PlaneRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_SphereRow_PlaneRegions_words;
void bvh_search_regions_SphereRow_PlaneRegions(bvh_search_regions_SphereRow_PlaneRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_SphereRow row;
    bvh_SphereRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_SphereRow_SphereRegions_words;
void bvh_search_regions_SphereRow_SphereRegions(bvh_search_regions_SphereRow_SphereRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TriangleRow row;
    bvh_BoxRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_TriangleRow_BoxRegions_words;
void bvh_search_regions_TriangleRow_BoxRegions(bvh_search_regions_TriangleRow_BoxRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TriangleRow row;
    bvh_PlaneRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_TriangleRow_PlaneRegions_words;
void bvh_search_regions_TriangleRow_PlaneRegions(bvh_search_regions_TriangleRow_PlaneRegions_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_TriangleRow row;
    bvh_SphereRegions regions;
    int64_t end;
    bvh_Search search;
    bvh_Found found;
} bvh_search_regions_TriangleRow_SphereRegions_words;
void bvh_search_regions_TriangleRow_SphereRegions(bvh_search_regions_TriangleRow_SphereRegions_words *words);

/* bvh.tree.binary_nodes */

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f4_1d data;
    bvh_i4_1d numbers;
} bvh_number_words;
void bvh_number(bvh_number_words *words);

typedef struct {
    bvh_i4_1d numbers;
    bvh_i8_1d starts;
    int64_t first_node;
    int64_t first_primitive;
} bvh_Numbering;

typedef struct {
    float *data;
    int64_t shape[3];
} bvh_f4_3d;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f4_1d data;
    bvh_Numbering numbering;
    bvh_i4_1d levels;
    bvh_i8_1d order;
    bvh_i8_2d pending;
    bvh_f4_3d boxes;
    bvh_i4_2d children;
} bvh_split_2_words;
void bvh_split_2(bvh_split_2_words *words);

/* bvh.tree.build */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d points;
    int64_t begin;
    int64_t end;
    bvh_f8_1d bounds;
} bvh_bound_points_words;
void bvh_bound_points(bvh_bound_points_words *words);

typedef struct {
    float *data;
    int64_t shape[2];
} bvh_f4_2d;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_Triangles triangles;
    int64_t begin;
    int64_t end;
    bvh_f8_2d frame;
    bvh_f4_2d records;
    int64_t row;
    bvh_f4_2d boxes;
    bvh_f8_1d bounds;
} bvh_record_triangles_words;
void bvh_record_triangles(bvh_record_triangles_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d boxes;
    bvh_i4_1d ids;
    bvh_f8_2d frame;
    bvh_f4_2d records;
} bvh_record_boxes_words;
void bvh_record_boxes(bvh_record_boxes_words *words);

/* bvh.tree.builders.binned_sah */

typedef struct {
    bvh_Triangles triangles;
    bvh_f8_2d frame;
    bvh_f4 overlap;
    bvh_f4_2d bins;
    bvh_i4_1d counts;
    bvh_f8_2d corners;
} bvh_Spatial;

typedef struct {
    bvh_f4_2d bounds;
    bvh_i4_2d links;
    bvh_i4_1d order;
} bvh_SubtreeNodes;

typedef struct {
    int64_t deepest;
    int64_t group_bits;
    int64_t max_leaf;
} bvh_Limits;

typedef struct {
    bvh_i4_1d _0;
    bvh_i8_1d _1;
} bvh_Tuple_5;

typedef struct {
    bvh_i8_2d _0;
    bvh_f4_2d _1;
    bvh_f4_2d _2;
    bvh_f4_2d _3;
    bvh_f4_2d _4;
} bvh_Tuple_6;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f4_2d records;
    bvh_Spatial spatial;
    bvh_i8_2d tasks;
    int64_t used;
    bvh_SubtreeNodes block;
    bvh_Limits limits;
    bvh_Tuple_5 state;
    bvh_Tuple_6 scratch;
} bvh_build_subtrees_Spatial_words;
void bvh_build_subtrees_Spatial(bvh_build_subtrees_Spatial_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f4_2d records;
    bvh_i8_2d tasks;
    int64_t used;
    bvh_SubtreeNodes block;
    bvh_Limits limits;
    bvh_Tuple_5 state;
    bvh_Tuple_6 scratch;
} bvh_build_subtrees_none_words;
void bvh_build_subtrees_none(bvh_build_subtrees_none_words *words);

/* bvh.tree.builders.grid */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_2d records;
    int64_t begin;
    int64_t end;
    bvh_f4_2d boxes;
} bvh_bound_chunk_words;
void bvh_bound_chunk(bvh_bound_chunk_words *words);

typedef struct {
    uint16_t *data;
    int64_t shape[1];
} bvh_u2_1d;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_2d records;
    int64_t begin;
    int64_t end;
    bvh_f4_2d boxes;
    bvh_i8_1d bits;
    bvh_u2_1d cells;
    bvh_f4_2d cell_bins;
} bvh_fill_cells_words;
void bvh_fill_cells(bvh_fill_cells_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_2d records;
    bvh_u2_1d cells;
    int64_t begin;
    int64_t end;
    bvh_i4_1d range_of;
    bvh_i8_1d rows;
    bvh_f4_2d out;
} bvh_move_to_ranges_words;
void bvh_move_to_ranges(bvh_move_to_ranges_words *words);

typedef struct {
    bvh_i4_1d _0;
    bvh_i8_2d _1;
    bvh_f4_2d _2;
    bvh_f4_2d _3;
} bvh_Tuple_7;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    int64_t result_1;
    bvh_f4_2d cell_bins;
    bvh_i8_1d bits;
    int64_t limits[4];
    bvh_i4_2d links;
    bvh_i8_2d ranges;
    bvh_i4_1d range_of;
    bvh_Tuple_7 scratch;
} bvh_split_cells_words;
void bvh_split_cells(bvh_split_cells_words *words);

/* bvh.tree.builders.sbvh */

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_i4_2d links;
    bvh_i4_1d order;
    bvh_i4_1d out;
} bvh_merge_words;
void bvh_merge(bvh_merge_words *words);

/* bvh.tree.builders.shared_splits */

typedef struct {
    int64_t kernel_status, kernel_error;
    double result_0;
    int64_t result_1;
    int64_t result_2;
    int64_t result_3;
    int64_t result_4;
    bvh_Spatial spatial;
    bvh_f4_2d boxes;
    bvh_f4_2d halves;
    bvh_f4_2d sides;
} bvh_best_bins_words;
void bvh_best_bins(bvh_best_bins_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    double result_0;
    int64_t result_1;
    int64_t result_2;
    int64_t result_3;
    int64_t result_4;
    bvh_Spatial spatial;
    bvh_f4_2d boxes;
    int64_t capacity;
    bvh_f4_2d sides;
} bvh_best_plane_words;
void bvh_best_plane(bvh_best_plane_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f4_2d records;
    bvh_i8_1d begins;
    bvh_i8_1d counts;
} bvh_close_gaps_words;
void bvh_close_gaps(bvh_close_gaps_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Spatial spatial;
    bvh_f4_2d records;
    int64_t begin;
    int64_t end;
    bvh_f4_2d boxes;
    int64_t in_space;
} bvh_fill_chunk_words;
void bvh_fill_chunk(bvh_fill_chunk_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Spatial spatial;
    bvh_f4_2d records;
    int64_t begin;
    int64_t end;
    bvh_f4_2d boxes;
    int64_t in_space;
    int64_t plane[4];
    bvh_i8_1d rows;
    bvh_i8_1d sides;
    bvh_f4_2d halves;
} bvh_move_chunk_words;
void bvh_move_chunk(bvh_move_chunk_words *words);

/* bvh.tree.builders.subtrees */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i4_2d links;
    bvh_f4_2d bounds;
    bvh_b1_1d is_task;
} bvh_bound_top_words;
void bvh_bound_top(bvh_bound_top_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_2d from_bounds;
    bvh_i4_2d from_links;
    bvh_i8_1d roots;
    int64_t first;
    bvh_f4_2d bounds;
    bvh_i4_2d links;
} bvh_copy_subtrees_words;
void bvh_copy_subtrees(bvh_copy_subtrees_words *words);

/* bvh.tree.collapse */

typedef struct {
    bvh_f4_2d _0;
    bvh_i4_2d _1;
    bvh_i4_1d _2;
} bvh_Tuple_8;

typedef struct {
    bvh_f4_1d sums;
    bvh_i4_1d rows;
} bvh_Plan;

typedef struct {
    bvh_i8_2d _0;
    bvh_i8_1d _1;
    bvh_i8_2d _2;
} bvh_Tuple_9;

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_Tuple_8 binary;
    bvh_Plan plan;
    bvh_i8_2d tasks;
    int64_t begin;
    int64_t end;
    int64_t grain;
    bvh_i8_2d left_over;
    bvh_f4_1d data;
    bvh_i4_2d ids;
    bvh_Tuple_9 scratch;
} bvh_collapse_words;
void bvh_collapse(bvh_collapse_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_2d bounds;
    bvh_i4_2d links;
    int64_t begin;
    int64_t end;
    int64_t lanes;
    bvh_Plan plan;
} bvh_plan_words;
void bvh_plan(bvh_plan_words *words);

/* bvh.tree.hulls */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d points;
    bvh_b1_1d used;
    bvh_f8_1d centre;
    bvh_f8_1d scale;
    bvh_f8_1d extremes;
} bvh_find_extremes_words;
void bvh_find_extremes(bvh_find_extremes_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_2d points;
    bvh_i4_2d faces;
    bvh_b1_1d used;
} bvh_mark_used_words;
void bvh_mark_used(bvh_mark_used_words *words);

/* bvh.tree.nodes */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d lower;
    bvh_f8_2d upper;
    bvh_f8_2d frame;
    bvh_f4_2d boxes;
} bvh_local_boxes_words;
void bvh_local_boxes(bvh_local_boxes_words *words);

/* bvh.tree.oriented_boxes */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_1d data;
    bvh_f4_1d groups;
    bvh_i8_1d parents;
    bvh_f4_1d axes;
    bvh_f4_1d ends;
} bvh_measure_words;
void bvh_measure(bvh_measure_words *words);

/* bvh.tree.refit */

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_2d points;
    bvh_b1_1d used;
    bvh_f8_2d bounds;
} bvh_bound_used_words;
void bvh_bound_used(bvh_bound_used_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    double result_0;
    bvh_f4_1d data;
    bvh_f8_2d frame;
} bvh_cost_words;
void bvh_cost(bvh_cost_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_1d data;
    bvh_f8_2d root;
    bvh_f4_2d corner;
} bvh_fill_empty_words;
void bvh_fill_empty(bvh_fill_empty_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Triangles triangles;
    bvh_i4_2d rows;
    bvh_f8_2d frame;
    int64_t begin;
    int64_t end;
    bvh_f4_1d data;
    bvh_f4_1d groups;
    bvh_b1_1d is_done;
} bvh_fit_Triangles_none_words;
void bvh_fit_Triangles_none(bvh_fit_Triangles_none_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d corners[2];
    bvh_i4_2d rows;
    bvh_f8_2d frame;
    int64_t begin;
    int64_t end;
    bvh_f4_1d data;
    bvh_f4_1d groups;
    bvh_b1_1d is_done;
} bvh_fit_none_UniTuple_words;
void bvh_fit_none_UniTuple(bvh_fit_none_UniTuple_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_1d data;
    bvh_b1_1d is_done;
    bvh_f8_2d root;
} bvh_fit_others_words;
void bvh_fit_others(bvh_fit_others_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i4_2d rows;
    bvh_b1_1d in_leaf;
} bvh_mark_words;
void bvh_mark(bvh_mark_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_i4_2d faces;
    bvh_b1_1d in_leaf;
    bvh_b1_1d used;
} bvh_mark_corners_words;
void bvh_mark_corners(bvh_mark_corners_words *words);

/* bvh.tree.tlas */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f4_1d blocks;
    bvh_i4_2d ids;
    bvh_i8_1d parents;
    bvh_i8_1d lanes;
} bvh_find_lanes_words;
void bvh_find_lanes(bvh_find_lanes_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_i8_1d rows;
    bvh_f8_2d moved;
    bvh_f8_2d boxes;
    bvh_i8_1d lanes;
    bvh_i8_1d parents;
    bvh_f8_2d frame;
    bvh_f4_1d blocks;
    bvh_f8_1d figures;
} bvh_move_boxes_words;
void bvh_move_boxes(bvh_move_boxes_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_2d boxes;
    bvh_i8_1d lanes;
    bvh_i4_2d ids;
    bvh_i8_1d parents;
    bvh_f8_2d frame;
    bvh_f4_1d blocks;
    bvh_f8_1d figures;
    int64_t is_new;
} bvh_refit_all_words;
void bvh_refit_all(bvh_refit_all_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f8_2d boxes;
    bvh_i4_1d ids;
    bvh_f8_2d bounds;
} bvh_valid_boxes_words;
void bvh_valid_boxes(bvh_valid_boxes_words *words);

/* bvh.tree.triangle_groups */

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_f8_2d points;
    bvh_i4_2d faces;
    bvh_i4_2d rows;
    bvh_f8_2d frame;
    int64_t begin;
    int64_t end;
    bvh_f4_1d groups;
} bvh_pack_triangles_words;
void bvh_pack_triangles(bvh_pack_triangles_words *words);

/* bvh.tree.winding_moments */

typedef struct {
    bvh_f8_2d shapes;
    bvh_f8_3d poles;
} bvh_Sums;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Triangles triangles;
    bvh_f8_2d frame;
    bvh_i4_1d order;
    bvh_i8_1d codes;
    bvh_Sums sums;
    bvh_Sums parts;
    bvh_f8_3d away;
    bvh_f4_1d terms;
    bvh_f8_1d packed;
} bvh_sum_terms_words;
void bvh_sum_terms(bvh_sum_terms_words *words);

typedef struct {
    int64_t kernel_status, kernel_error;
    int64_t result_0;
    bvh_f4_2d bounds;
    bvh_i4_2d links;
    bvh_i8_2d pending;
    bvh_i8_1d codes;
} bvh_widen_words;
void bvh_widen(bvh_widen_words *words);

/* bvh.tree.world_bounds */

typedef struct {
    bvh_f8_1d boxes;
    bvh_i8_1d offsets;
    bvh_f8_2d reach;
} bvh_Extents;

typedef struct {
    int64_t kernel_status, kernel_error;
    bvh_Extents extents;
    bvh_i4_1d tree_of;
    bvh_f8_3d matrices;
    int64_t begin;
    int64_t end;
    bvh_f8_2d found;
} bvh_bound_words;
void bvh_bound(bvh_bound_words *words);

#ifdef __cplusplus
}
#endif

#endif
