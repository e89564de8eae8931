package io.sluice.engine;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import scala.Function1;
import scala.PartialFunction;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/** Bridges between Java's and Scala's functions and collections. */
final class Functions {
  private Functions() {}

  static <T> Function1<T, BoxedUnit> of(Consumer<? super T> consumer) {
    return item -> {
      consumer.accept(item);
      return BoxedUnit.UNIT;
    };
  }

  /** Defined where {@code found} gives anything but null. */
  static <T, R> PartialFunction<T, R> partial(Function<T, R> found) {
    return new AbstractPartialFunction<>() {
      @Override
      public boolean isDefinedAt(T item) {
        return found.apply(item) != null;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends T, B> B applyOrElse(A item, Function1<A, B> otherwise) {
        R result = found.apply(item);
        return result == null ? otherwise.apply(item) : (B) result;
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
