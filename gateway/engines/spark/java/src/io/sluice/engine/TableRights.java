package io.sluice.engine;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What limits a principal on one table. Two of equal value give the same rows and columns.
 *
 * @param columns the only ones that exist for the principal, lower-case; null for all
 * @param filters conditions in SQL; a row is there when all of them are true
 * @param masks what stands in a column instead of its value
 */
public record TableRights(Set<String> columns, List<String> filters, Map<String, Mask> masks) {
  static final TableRights WHOLE = new TableRights(null, List.of(), Map.of());

  /** {@code text} is the expression, or the key of a hash. */
  record Mask(String kind, String text) {}

  /** Two masks meant one column: what to show cannot be decided. */
  static final String HIDDEN = "hidden";

  boolean isWhole() {
    return columns == null && filters.isEmpty() && masks.isEmpty();
  }

  /** True when the column's own values may be seen. */
  boolean isPlain(String column) {
    return (columns == null || columns.contains(column)) && !masks.containsKey(column);
  }

  boolean isHidden(String column) {
    Mask mask = masks.get(column);
    boolean isUndecided = mask != null && mask.kind().equals(HIDDEN);
    return isUndecided || columns != null && !columns.contains(column);
  }

  int rules() {
    return filters.size() + masks.size();
  }
}
