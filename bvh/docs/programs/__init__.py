"""Programs to learn from.

Each file imports only from those above it.

| file | contents |
|---|---|
| `ambient_occlusion.py` | Ambient occlusion: the visible share of the sky for each pixel of a picture |
| `find_pose.py` | Find the pose of a mesh from 64 distances, by gradient descent (needs PyTorch) |
| `fit_surface.py` | Fit a surface to a cloud of points: move its vertices, refit the tree, repeat (needs PyTorch) |
| `foliage.py` | Foliage: leaves cut out of cards, by a filter that accepts hits where a texture is opaque |
| `lidar.py` | Lidar over rough ground: several returns a pulse with random dropouts, in one compiled loop |
| `pyvista_results.py` | Results back in PyVista: the distance of a surface to another, and hits of rays, in a plotter |
| `gallery/` | Pictures, each with the question that it answers and the script that answers it. |
| `clash.py` | Where two solids meet, how much they share, and how deep they are in each other |
| `cloud.py` | How dense a cloud of points is, and which of its points are in the lasso |
| `drop_ins.py` | One sculpture by the calls of three libraries: trimesh, Open3D and embreex, answered by bvh |
| `sky_light.py` | How much of the sky each point sees, by a kernel of Warp (needs Warp) |
| `live_pages.py` | Live pages: a lasso, a section, the cost of rays and a cloud of points, each as one HTML file |
| `terrain.py` | What is seen from here: the viewshed, the horizon and the shadows of a terrain |
"""
