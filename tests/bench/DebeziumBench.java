import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;

import java.lang.management.ManagementFactory;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's engine at a slot that exists: how many row changes a processor second of this
 * process carries to a consumer that only counts them. Records stay objects: nothing of them
 * is written, as JSON or otherwise.
 *
 * <p>Arguments: host port user password database slot publication, and how many changes. Prints
 * changes and processor seconds from the first half of them on, when the code is warm.
 */
public final class DebeziumBench {
    private static long seen;
    private static long begun = -1;
    private static long at;

    private DebeziumBench() {}

    public static void main(String[] given) throws Exception {
        final long wanted = Long.parseLong(given[7]);
        ExecutorService runner = Executors.newSingleThreadExecutor();
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine =
                DebeziumEngine.create(Connect.class)
                        .using(properties(given))
                        .notifying((records, committer) -> {
                            for (ChangeEvent<SourceRecord, SourceRecord> one : records) {
                                if (one.value() != null && one.value().value() != null) {
                                    count(wanted);
                                }
                                committer.markProcessed(one);
                            }
                            committer.markBatchFinished();
                        })
                        .using((isGood, message, error) -> {
                            System.err.println(message + " " + error);
                            System.exit(1);
                        })
                        .build();
        runner.execute(engine);
        runner.awaitTermination(1, TimeUnit.HOURS);
    }

    private static void count(long wanted) {
        seen += 1;
        if (begun < 0 && seen * 2 >= wanted) {
            begun = seen;
            at = spent();
        }
        if (seen == wanted) {
            System.out.println((seen - begun) + " " + (spent() - at) / 1e9);
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
    }

    private static long spent() {
        return ((com.sun.management.OperatingSystemMXBean)
                        ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    private static Properties properties(String[] given) {
        Properties made = new Properties();
        String[] pairs = {
            "name", "bench",
            "connector.class", "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
            "plugin.name", "pgoutput",
            "topic.prefix", "bench",
            "snapshot.mode", "no_data",
            "publication.autocreate.mode", "disabled",
            "tombstones.on.delete", "false",
            "database.hostname", given[0],
            "database.port", given[1],
            "database.user", given[2],
            "database.password", given[3],
            "database.dbname", given[4],
            "slot.name", given[5],
            "publication.name", given[6],
        };
        for (int each = 0; each < pairs.length; each += 2) {
            made.setProperty(pairs[each], pairs[each + 1]);
        }
        return made;
    }
}
