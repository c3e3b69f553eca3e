"""Every figure, from results, never in the loop: `maps`, `noise` and `queries` say what is shown, `sheet` is the language they
say it in, and `with_plotly` and `with_matplotlib` are the two that can draw a sheet.

Each function takes what people hold (an estimator, a study, a loaded model: `subject` reads them) and draws it in its units and
names; or plain things (a callable that predicts, a kernel with numbers in it). `backend="plotly"` or `"matplotlib"` says whose
figure is returned. Nothing is shown or saved, and no plotting state is touched.
"""

from hyperleaf.plots.maps import leaf_weight_maps, posterior_maps, prior_draws
from hyperleaf.plots.noise import noise_maps
from hyperleaf.plots.queries import acquisition_maps
from hyperleaf.plots.rivals import tree_map, warp_maps
from hyperleaf.plots.sheet import Band, Heat, Line, Panel, Points, Regions, Scale, Sheet, draw

__all__ = [
    "Band",
    "Heat",
    "Line",
    "Panel",
    "Points",
    "Regions",
    "Scale",
    "Sheet",
    "acquisition_maps",
    "draw",
    "leaf_weight_maps",
    "noise_maps",
    "posterior_maps",
    "prior_draws",
    "tree_map",
    "warp_maps",
]
