        {
            double slopes[@NAME@_OUTPUTS * @NAME@_INPUTS];
            double spreads[@NAME@_OUTPUTS * @NAME@_INPUTS];
            (void)@name@_slopes(test_inputs[i], slopes, spreads);
            for (p = 0; p < @NAME@_OUTPUTS * @NAME@_INPUTS; p++) {
                const double size = test_sizes[p / @NAME@_INPUTS] / (axes[p % @NAME@_INPUTS].high - axes[p % @NAME@_INPUTS].low);
                if (axes[p % @NAME@_INPUTS].kind == REAL) {
                    worst = fmax(worst, fabs(slopes[p] - test_slopes[i][p]) / (size + fabs(test_slopes[i][p])));
                    worst = fmax(worst, fabs(spreads[p] - test_spreads[i][p]) / (size + fabs(test_spreads[i][p])));
                }
            }
        }
