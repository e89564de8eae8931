package io.sluice.engine;

import java.util.List;
import java.util.function.Consumer;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Bridges between Java's and Scala's functions and collections. */
final class Functions {
  private Functions() {}

  static <T> AbstractFunction1<T, BoxedUnit> of(Consumer<? super T> consumer) {
    return new AbstractFunction1<>() {
      @Override
      public BoxedUnit apply(T item) {
        consumer.accept(item);
        return BoxedUnit.UNIT;
      }
    };
  }

  static <T> Seq<T> seq(List<T> items) {
    return JavaConverters.asScalaBuffer(items).toList();
  }

  static <T> List<T> list(Seq<T> items) {
    return JavaConverters.seqAsJavaList(items);
  }

  /** Throws a checked exception of Spark where Scala declares none. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException raise(Throwable error) throws E {
    throw (E) error;
  }
}
