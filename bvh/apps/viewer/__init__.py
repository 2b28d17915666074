"""Viewer: a page in the browser that shows meshes, trees and scenes."""
