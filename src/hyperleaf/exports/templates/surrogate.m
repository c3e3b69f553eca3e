function [mean, std, outside@QUANTILE_OUTPUT@@SLOPES_OUTPUT@] = @name@(points)
%@NAME@ @TITLE@. No toolbox is needed; MATLAB and GNU Octave.
%
%   [mean, std, outside@QUANTILE_OUTPUT@@SLOPES_OUTPUT@] = @name@(points)
%
%   points: one row for each point, with the inputs in native units in this order:
@INPUT_LINES@
%   mean, std: one row for each point, one column for each output, of @what@:
@OUTPUT_LINES@
%   outside: true where a point lies outside the domain; the values there are extrapolated, and NaN where there is no such point.
@QUANTILE_LINES@@SLOPES_LINES@%
@CERTIFICATE@

    persistent parts
    if isempty(parts)
        parts = ready(tables());
    end
    axes = inputs();
    count = size(points, 1);
    if size(points, 2) ~= numel(axes)
        error('@name@:points', 'points must have %d columns; got %d.', numel(axes), size(points, 2));
    end
    [unit, outside, wrong] = to_unit(axes, points);
    mean = zeros(count, numel(parts));
    std = zeros(count, numel(parts));
    levels = @LEVELS@;
    quantiles = zeros(count, size(levels, 1), numel(parts));
    for p = 1:numel(parts)
        part = parts{p};
        [means, variances] = moments(part, unit);
        if @NOISY@
            variances = variances + noise_at(part, unit);
        end
        centre = means * part.weights';
        apart = means - repmat(centre, 1, numel(part.weights));
        mean(:, p) = part.loc + part.scale * centre;
        std(:, p) = part.scale * sqrt((variances + apart .^ 2) * part.weights');
        for q = 1:size(levels, 1)
            value = quantile_of(part.weights, means, sqrt(variances), levels(q, 1), levels(q, 2));
            quantiles(:, q, p) = part.loc + part.scale * value;
        end
    end
    mean(wrong, :) = NaN;
    std(wrong, :) = NaN;
    quantiles(wrong, :, :) = NaN;
@SLOPES_CALL@end

function [unit, outside, wrong] = to_unit(axes, points)
    last = axes{end};
    count = size(points, 1);
    unit = zeros(count, last.start + last.width);
    outside = false(count, 1);
    wrong = false(count, 1);
    for k = 1:numel(axes)
        axis = axes{k};
        value = points(:, k);
        within = value >= axis.low - @slack@ * abs(axis.low) & value <= axis.high + @slack@ * abs(axis.high);
        outside = outside | ~within;
        value(within) = min(max(value(within), axis.low), axis.high);
        if axis.kind > 0
            wrong = wrong | ~within | value ~= round(value);
        end
        if axis.kind == 2
            for option = 1:axis.width
                unit(:, axis.start + option) = value == option - 1;
            end
            continue
        end
        if axis.kind == 1
            value = value - 0.5 + (value - axis.low) / (axis.high - axis.low);
        end
        wrong = wrong | ~isfinite(value);
        if axis.is_log
            wrong = wrong | ~(value > 0);
            value(~(value > 0)) = 1;
            value = log(value);
        end
        place = (value - axis.first) / (axis.last - axis.first);
        place(within) = min(max(place(within), 0), 1);
        unit(:, axis.start + 1) = place;
    end
    outside = outside | wrong;
    unit(wrong, :) = 0.5;
end

function weights = mixing(part, draw, unit)
    count = size(unit, 1);
    z = repmat(part.offset(draw, :), count, 1) + unit * part.normal(:, :, draw)';
    shut = min(z, 0) - log1p(exp(-abs(z)));
    side = part.side(:, :, draw);
    weights = exp(part.power * (shut * abs(side)' - z * max(-side, 0)'));
end

function total = covariance(part, draw, here, at_here, there, at_there)
    total = part.constant + part.linear * ((here - 0.5) * (there - 0.5)');
    for j = 1:size(part.variance, 2)
        if part.variance(draw, j) > 0
            squared = zeros(size(total));
            for k = 1:size(here, 2)
                apart = repmat(here(:, k), 1, size(there, 1)) - repmat(there(:, k)', size(here, 1), 1);
                squared = squared + (apart / part.lengthscale(j, k, draw)) .^ 2;
            end
            total = total + part.variance(draw, j) * (at_here(:, j) * at_there(:, j)') .* profile(part.profile, squared);
        end
    end
end

function value = profile(kind, squared)
    switch kind
        case 'rbf'
            value = exp(-0.5 * squared);
        case 'matern12'
            value = exp(-sqrt(squared));
        case 'matern32'
            r = sqrt(3 * squared);
            value = (1 + r) .* exp(-r);
        otherwise
            r = sqrt(5 * squared);
            value = (1 + r + r .^ 2 / 3) .* exp(-r);
    end
end

function [means, variances] = moments(part, unit)
    count = size(unit, 1);
    draws = numel(part.weights);
    means = zeros(count, draws);
    variances = zeros(count, draws);
    trend = part.constant + part.linear * sum((unit - 0.5) .^ 2, 2);
    for draw = 1:draws
        here = mixing(part, draw, unit);
        v = part.factor{draw} \ covariance(part, draw, unit, here, part.x, part.at_data{draw})';
        means(:, draw) = (part.whitened(:, draw)' * v)';
        variances(:, draw) = max(here .^ 2 * part.variance(draw, :)' + trend - sum(v .^ 2, 1)', 0);
    end
end

function noise = noise_at(part, unit)
    noise = repmat(part.noise, size(unit, 1), 1);
    for draw = 1:numel(part.noise)
        noise(:, draw) = noise(:, draw) .* exp(mixing(part, draw, unit) .^ (1 / part.power) * part.tilt(draw, :)');
    end
end

function value = quantile_of(weights, means, stds, level, normal)
    ends = means + normal * stds;
    low = min(ends, [], 2);
    high = max(ends, [], 2);
    for step = 1:60
        middle = 0.5 * (low + high);
        z = (repmat(middle, 1, numel(weights)) - means) ./ max(stds, 1e-300);
        below = 0.5 * erfc(-z / sqrt(2)) * weights' < level;
        low(below) = middle(below);
        high(~below) = middle(~below);
    end
    value = 0.5 * (low + high);
end

@SLOPES@function parts = ready(parts)
    for p = 1:numel(parts)
        part = parts{p};
        for draw = 1:numel(part.weights)
            at_data = mixing(part, draw, part.x);
            gram = covariance(part, draw, part.x, at_data, part.x, at_data) + diag(part.nugget(draw, :));
            part.at_data{draw} = at_data;
            part.factor{draw} = chol(0.5 * (gram + gram'), 'lower');
            part.whitened(:, draw) = part.factor{draw} \ part.y';
        end
        parts{p} = part;
    end
end

function axes = inputs()
    axes = {};
@AXES@
end

function parts = tables()
    parts = {};
@PARTS@
end
