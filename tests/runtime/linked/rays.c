/* Build trees over meshes and cast rays at them, as `bvh.BVH` does in one thread.

   Standard input has meshes one after the other: numbers of vertices, faces and rays, and which sides
   count; vertices, faces, origins, directions, and both ends of each ray. Standard output is t,
   prim_id, u, v and front of all rays of a mesh, and so on. Constants of the package are macros. */

#include "bvh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than any array of scratch memory of one thread has. */
#define SCRATCH (1 << 18)

static void *memory(int64_t bytes) {
    int64_t size = (bytes / 64 + 1) * 64;
    void *found = aligned_alloc(64, size);
    if (!found)
        exit(2);
    return memset(found, 0, size);
}

#define F8(count) ((bvh_f8_1d){memory(8 * (count)), {count}})
#define F4(count) ((bvh_f4_1d){memory(4 * (count)), {count}})
#define I8(count) ((bvh_i8_1d){memory(8 * (count)), {count}})
#define I4(count) ((bvh_i4_1d){memory(4 * (count)), {count}})
#define F8S(rows, columns) ((bvh_f8_2d){memory(8 * (rows) * (columns)), {rows, columns}})
#define F4S(rows, columns) ((bvh_f4_2d){memory(4 * (rows) * (columns)), {rows, columns}})
#define I8S(rows, columns) ((bvh_i8_2d){memory(8 * (rows) * (columns)), {rows, columns}})
#define I4S(rows, columns) ((bvh_i4_2d){memory(4 * (rows) * (columns)), {rows, columns}})

/* Fill the first two rows of a frame: see `tree/frame.py`. */
static void fill_frame(double *frame, const double *bounds) {
    double half = 0, far = 0;
    int exponent = 0;
    for (int i = 0; i < 3; i++) {
        frame[i] = 0.5 * bounds[i] + 0.5 * bounds[i + 3];
        half = fmax(half, 0.5 * bounds[i + 3] - 0.5 * bounds[i]);
        far = fmax(far, fmax(fabs(bounds[i]), fabs(bounds[i + 3])));
    }
    if (half > 0)
        frexp(half, &exponent);
    exponent = exponent > 1020 ? 1020 : exponent < -1020 ? -1020 : exponent;
    frame[3] = -exponent;
    frame[4] = far;
    frame[5] = fmax(1.0, ldexp(half, -exponent) * (1.0 + 0x1p-20));
}

/* Build a tree of less than SMALLEST_TASK triangles; return its row. */
static bvh_TriangleRow build(bvh_Triangles mesh, int64_t *row) {
    int64_t count = mesh.faces.shape[0];
    bvh_bound_points_words survey = {
        .points = mesh.points, .end = mesh.points.shape[0], .bounds = F8(6),
    };
    bvh_bound_points(&survey);
    bvh_f8_2d frame = F8S(2, 3);
    bvh_record_triangles_words record = {
        .triangles = mesh, .end = count, .frame = frame, .records = F4S(2 * count, RECORD),
        .boxes = F4S(2, RECORD), .bounds = F8(6),
    };
    if (survey.bounds.data[0] <= survey.bounds.data[3])
        fill_frame(frame.data, survey.bounds.data);
    bvh_record_triangles(&record);
    int64_t used = record.result_0;
    if (used == 0)
        return (bvh_TriangleRow){(int64_t)row};
    if (memcmp(record.bounds.data, survey.bounds.data, 6 * sizeof(double))) {
        fill_frame(frame.data, record.bounds.data);
        bvh_record_triangles(&record);
    }
    record.records.shape[0] = 2 * used;

    bvh_build_subtrees_none_words subtree = {
        .records = record.records, .tasks = I8S(1, RANGE_WIDTH), .used = 1,
        .block = {F4S(2 * used, 6), I4S(2 * used, 2), I4(used)},
        .limits = {DEEPEST_LEVEL(used), GROUP_BITS, MAX_LEAF}, .state = {I4(1), I8(8)},
        .scratch = {
            I8S(128, RANGE_WIDTH), F4S(256, RECORD), F4S(4, RECORD), F4S(6 * BINS, RECORD),
            F4S(2 * (3 * BINS + WIDTH), 4),
        },
    };
    subtree.tasks.data[END] = subtree.tasks.data[LIMIT] = used;
    bvh_build_subtrees_none(&subtree);
    int64_t nodes = subtree.result_0;
    bvh_f4_2d bounds = {subtree.block.bounds.data, {nodes, 6}};
    bvh_i4_2d links = {subtree.block.links.data, {nodes, 2}};

    bvh_plan_words plan = {
        .bounds = bounds, .links = links, .begin = 1, .end = nodes, .lanes = WIDTH,
        .plan = {F4(nodes * WIDTH), I4(nodes)},
    };
    bvh_plan(&plan);
    plan.begin = 0, plan.end = 1;
    bvh_plan(&plan);
    bvh_collapse_words collapse = {
        .binary = {bounds, links, subtree.block.order}, .plan = plan.plan, .tasks = I8S(1, TASK_WIDTH),
        .end = 1, .left_over = I8S(0, TASK_WIDTH), .data = F4(0),
        .ids = I4S(plan.plan.rows.data[0], WIDTH),
        .scratch = {I8S(DEEPEST * WIDTH, 2), I8(WIDTH), I8S(2 * WIDTH, 2)},
    };
    /* Count the nodes, then write them. */
    collapse.tasks.data[NEXT] = 1;
    bvh_collapse(&collapse);
    collapse.data = F4((1 + collapse.tasks.data[BELOW]) * NODE_SIZE);
    bvh_collapse(&collapse);

    bvh_f8_2d whole = F8S(4, 3);
    memcpy(whole.data, frame.data, 6 * sizeof(double));
    for (int i = 0; i < 6; i++)
        whole.data[6 + i] = bounds.data[i];
    int64_t groups = collapse.ids.shape[0];
    bvh_pack_triangles_words pack = {
        .points = mesh.points, .faces = mesh.faces, .rows = collapse.ids, .frame = whole,
        .end = groups, .groups = F4(groups * GROUP_SIZE),
    };
    bvh_pack_triangles(&pack);
    row[NODES] = (int64_t)collapse.data.data;
    /* Triangle groups have the ids in their last row. */
    row[IDS] = (int64_t)(pack.groups.data + IDS_ROW * WIDTH);
    row[GROUPS] = (int64_t)pack.groups.data;
    row[FRAME] = (int64_t)whole.data;
    row[POINTS] = (int64_t)mesh.points.data;
    row[FACES] = (int64_t)mesh.faces.data;
    return (bvh_TriangleRow){(int64_t)row};
}

static bvh_Block block(void) {
    return (bvh_Block){F4(SCRATCH), F8(SCRATCH), I8(SCRATCH)};
}

static void *taken(int64_t bytes) {
    void *found = memory(bytes);
    if (fread(found, 1, bytes, stdin) != (size_t)bytes)
        exit(1);
    return found;
}

int main(void) {
    int64_t head[4], row[ROW_SIZE];
    bvh_Scratch scratch = {
        block(), {F4(SCRATCH), I8(SCRATCH)}, I8(SCRATCH), F8(SCRATCH),
        {
            {F4(SCRATCH), F4(SCRATCH)}, F4(SCRATCH),
            {block(), F8(SCRATCH), I8(SCRATCH), I8(SCRATCH), I8(SCRATCH), I8(SCRATCH)},
        },
        {I8(SCRATCH), I8(SCRATCH), I8(SCRATCH)},
    };
    while (fread(head, 8, 4, stdin) == 4) {
        int64_t n = head[2];
        bvh_Triangles mesh = {{taken(24 * head[0]), {head[0], 3}}, {NULL, {head[1], 3}}};
        mesh.faces.data = taken(12 * head[1]);
        bvh_Rays rays = {.masks = I4(1)};
        rays.origins = (bvh_f8_2d){taken(24 * n), {n, 3}};
        rays.directions = (bvh_f8_2d){taken(24 * n), {n, 3}};
        rays.t_min = (bvh_f8_1d){taken(8 * n), {n}};
        rays.t_max = (bvh_f8_1d){taken(8 * n), {n}};
        rays.masks.data[0] = -1;
        memset(row, 0, sizeof row);
        bvh_closest_hits_TriangleRow_ClosestGoal_words cast = {
            .tree_row = build(mesh, row), .ray_arrays = rays,
            .ray_order = {n, 0, SINGLES, NEVER, I8(0), 0},
            .thread_scratch = scratch, .goal = {0, head[3]}, .end = (n + BLOCK - 1) / BLOCK,
            .columns = {F8(n), I4(n), F8(n), F8(n), {memory(n), {n}}},
        };
        bvh_Columns found = cast.columns;
        /* A tree of nothing has no kernel write misses. */
        for (int64_t i = 0; i < n; i++) {
            found.t.data[i] = INFINITY;
            found.prim_id.data[i] = -1;
            found.u.data[i] = found.v.data[i] = NAN;
        }
        bvh_closest_hits_TriangleRow_ClosestGoal(&cast);
        fwrite(found.t.data, 8, n, stdout);
        fwrite(found.prim_id.data, 4, n, stdout);
        fwrite(found.u.data, 8, n, stdout);
        fwrite(found.v.data, 8, n, stdout);
        fwrite(found.front.data, 1, n, stdout);
    }
    return 0;
}
