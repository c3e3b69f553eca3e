function [slopes, stds] = slopes_of(parts, axes, points, unit)
    slopes = NaN(size(unit, 1), numel(axes), numel(parts));
    stds = slopes;
    for p = 1:numel(parts)
        part = parts{p};
        for k = 1:numel(axes)
            axis = axes{k};
            if axis.kind == 0
                [means, variances] = gradient_of(part, unit, axis.start + 1);
                centre = means * part.weights';
                apart = means - repmat(centre, 1, numel(part.weights));
                stretch = repmat(axis.last - axis.first, size(unit, 1), 1);
                if axis.is_log
                    stretch = stretch .* points(:, k);
                end
                slopes(:, k, p) = part.scale * centre ./ stretch;
                stds(:, k, p) = part.scale * sqrt((variances + apart .^ 2) * part.weights') ./ stretch;
            end
        end
    end
end

function [means, variances] = gradient_of(part, unit, c)
    % Mean and variance of the derivative by column c of the unit cube under each draw.
    count = size(unit, 1);
    draws = numel(part.weights);
    means = zeros(count, draws);
    variances = zeros(count, draws);
    for draw = 1:draws
        here = mixing(part, draw, unit);
        z = repmat(part.offset(draw, :), count, 1) + unit * part.normal(:, :, draw)';
        open = 1 ./ (1 + exp(-z));
        side = part.side(:, :, draw);
        along = part.normal(:, c, draw);
        turns = (1 - open) * (max(side, 0)' .* repmat(along, 1, size(side, 1))) ...
            - open * (max(-side, 0)' .* repmat(along, 1, size(side, 1)));
        changes = part.power * here .* turns;
        rates = (1 ./ part.lengthscale(:, c, draw)') .^ 2;
        prior = (changes .^ 2 + fall(part.profile, 0) * here .^ 2 .* repmat(rates, count, 1)) * part.variance(draw, :)';
        found = repmat(part.linear * (part.x(:, c)' - 0.5), count, 1);
        apart = repmat(unit(:, c), 1, size(part.x, 1)) - repmat(part.x(:, c)', count, 1);
        for j = 1:size(part.variance, 2)
            squared = zeros(count, size(part.x, 1));
            for k = 1:size(unit, 2)
                distance = repmat(unit(:, k), 1, size(part.x, 1)) - repmat(part.x(:, k)', count, 1);
                squared = squared + (distance / part.lengthscale(j, k, draw)) .^ 2;
            end
            there = part.variance(draw, j) * part.at_data{draw}(:, j)';
            found = found + (changes(:, j) * there) .* profile(part.profile, squared) ...
                - rates(j) * (here(:, j) * there) .* fall(part.profile, squared) .* apart;
        end
        v = part.factor{draw} \ found';
        means(:, draw) = (part.whitened(:, draw)' * v)';
        variances(:, draw) = max(prior + part.linear - sum(v .^ 2, 1)', 0);
    end
end

function value = fall(kind, squared)
    % Minus twice the derivative of the profile by the squared distance.
    switch kind
        case 'rbf'
            value = exp(-0.5 * squared);
        case 'matern32'
            value = 3 * exp(-sqrt(3 * squared));
        otherwise
            r = sqrt(5 * squared);
            value = 5 / 3 * (1 + r) .* exp(-r);
    end
end

