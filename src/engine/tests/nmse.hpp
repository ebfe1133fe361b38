// SPDX-License-Identifier: Apache-2.0
//
// How far computed values are from those that they should be.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

namespace exo::engine {

// Mean of the squared differences by the mean of the squares; infinite when the two cannot be
// compared: other sizes, values that are no numbers, nothing but zeros.
[[nodiscard]] inline double
nmse(std::vector<float> const& values, std::vector<float> const& reference) {
    double difference = 0;
    double square = 0;
    bool const same_size = values.size() == reference.size();
    for (std::size_t i = 0; same_size && i < reference.size(); ++i) {
        difference += std::pow(double(values[i]) - double(reference[i]), 2);
        square += std::pow(double(reference[i]), 2);
    }
    bool const comparable = std::isfinite(difference) && std::isfinite(square) && square > 0;
    return comparable ? difference / square : std::numeric_limits<double>::infinity();
}

} // namespace exo::engine
