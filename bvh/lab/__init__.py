"""The ray lab: a page in the browser where a ray meets a box, exactly and as articles do it."""
