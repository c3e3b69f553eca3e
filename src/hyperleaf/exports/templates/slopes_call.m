    if nargout > 3 + @QUANTILED@
        [slopes, slope_stds] = slopes_of(parts, axes, points, unit);
        slopes(wrong, :, :) = NaN;
        slope_stds(wrong, :, :) = NaN;
    end
