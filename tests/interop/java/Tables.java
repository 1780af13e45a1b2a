// Tables URI SCOPE TABLE CASE ARGUMENTS...: one thing that a user of the real Java client does to a key-value table. It prints
// what it found, one entry per line, in hexadecimal: primary key, secondary key (- if there is none), value, version.
import io.pravega.client.ClientConfig;
import io.pravega.client.KeyValueTableFactory;
import io.pravega.client.admin.KeyValueTableInfo;
import io.pravega.client.admin.KeyValueTableManager;
import io.pravega.client.tables.*;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;

public class Tables {
    static KeyValueTable table;

    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        List<String> rest = List.of(args).subList(4, args.length);
        if (args[3].equals("create")) {
            try (KeyValueTableManager tables = KeyValueTableManager.create(config)) {
                boolean created = tables.createKeyValueTable(args[1], args[2], KeyValueTableConfiguration.builder()
                        .partitionCount(Integer.parseInt(rest.get(0))).primaryKeyLength(Integer.parseInt(rest.get(1)))
                        .secondaryKeyLength(Integer.parseInt(rest.get(2))).build());
                System.out.println("CREATED " + created);
                tables.listKeyValueTables(args[1]).forEachRemaining(each -> System.out.println("TABLE " + each.getKeyValueTableName()));
            }
        } else {
            try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(args[1], config)) {
                table = factory.forKeyValueTable(args[2], KeyValueTableClientConfiguration.builder().build());
                switch (args[3]) {
                    case "fill" -> fill(Integer.parseInt(rest.get(0)), Integer.parseInt(rest.get(1)));
                    case "iterate" -> {
                        for (String range : rest) {
                            iterate(List.of(range.split("/")));
                            System.out.println("END");
                        }
                    }
                    case "get" -> get(rest);
                    case "change" -> change(rest);
                    default -> throw new IllegalArgumentException(args[3]);
                }
                table.close();
            }
        }
        System.exit(0);
    }

    /** Batches of one family each: secondary keys 0, 3, 6... with values that name their keys. */
    static void fill(int families, int members) throws Exception {
        List<CompletableFuture<List<Version>>> all = new ArrayList<>();
        for (int family = 0; family < families; family++) {
            List<TableModification> batch = new ArrayList<>();
            for (int member = 0; member < members; member++) {
                TableKey key = new TableKey(number(family * 7, 4), number(member * 3, 2));
                batch.add(member % 2 == 0 ? new Insert(key, text(family + "/" + member)) : new Put(key, text(family + "/" + member)));
            }
            all.add(table.update(batch));
        }
        for (CompletableFuture<List<Version>> each : all) {
            get(each);
        }
    }

    /** One range: its kind and its bounds. */
    static void iterate(List<String> words) throws Exception {
        KeyValueTableIterator.Builder builder = table.iterator().maxIterationSize(13);
        KeyValueTableIterator iterator = switch (words.get(0)) {
            case "all" -> builder.all();
            case "primary" -> builder.forPrimaryKey(hex(words.get(1)));
            case "secondaryRange" -> builder.forPrimaryKey(hex(words.get(1)), hex(words.get(2)), hex(words.get(3)));
            case "secondaryPrefix" -> builder.forPrimaryKey(hex(words.get(1)), hex(words.get(2)));
            case "range" -> builder.forRange(hex(words.get(1)), hex(words.get(2)));
            case "prefix" -> builder.forPrefix(hex(words.get(1)));
            default -> throw new IllegalArgumentException(words.get(0));
        };
        io.pravega.common.util.AsyncIterator<IteratorItem<TableEntry>> entries = iterator.entries();
        List<String> keys = new ArrayList<>();
        for (IteratorItem<TableEntry> page = get(entries.getNext()); page != null; page = get(entries.getNext())) {
            for (TableEntry entry : page.getItems()) {
                print(entry);
                keys.add(entry.getKey().toString());
            }
        }
        io.pravega.common.util.AsyncIterator<IteratorItem<TableKey>> only = iterator.keys();
        for (IteratorItem<TableKey> page = get(only.getNext()); page != null; page = get(only.getNext())) {
            for (TableKey key : page.getItems()) {
                if (!keys.remove(0).equals(key.toString())) {
                    throw new AssertionError("keys are others than those of the entries");
                }
            }
        }
        if (!keys.isEmpty()) {
            throw new AssertionError("keys are missing");
        }
    }

    static void get(List<String> words) throws Exception {
        List<TableKey> keys = new ArrayList<>();
        for (int n = 0; n < words.size(); n += 2) {
            keys.add(key(words.get(n), words.get(n + 1)));
        }
        List<TableEntry> found = get(table.getAll(keys));
        for (int n = 0; n < keys.size(); n++) {
            if (get(table.exists(keys.get(n))) != (found.get(n) != null)) {
                throw new AssertionError("exists and get contradict each other");
            }
            if (found.get(n) == null) {
                System.out.println("NONE");
            } else {
                print(found.get(n));
            }
        }
    }

    /** Changes, each of four words: put, insert or remove; primary key; secondary key; version or -. One request each. */
    static void change(List<String> words) throws Exception {
        for (int n = 0; n < words.size(); n += 4) {
            TableKey key = key(words.get(n + 1), words.get(n + 2));
            String given = words.get(n + 3);
            Version version = given.equals("-") ? Version.NO_VERSION : Version.fromString(given);
            TableModification change = switch (words.get(n)) {
                case "put" -> new Put(key, text("of Java"), version);
                case "insert" -> new Insert(key, text("of Java"));
                case "remove" -> new Remove(key, version);
                default -> throw new IllegalArgumentException(words.get(n));
            };
            try {
                Version now = get(table.update(change));
                System.out.println("DONE " + (now == null ? "-" : now.toString()));
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                while (cause.getCause() != null && !(cause instanceof ConditionalTableUpdateException)) {
                    cause = cause.getCause();
                }
                System.out.println("REFUSED " + (cause instanceof ConditionalTableUpdateException));
            }
        }
    }

    static TableKey key(String primary, String secondary) {
        return secondary.equals("-") ? new TableKey(hex(primary)) : new TableKey(hex(primary), hex(secondary));
    }

    static void print(TableEntry entry) {
        TableKey key = entry.getKey();
        String secondary = key.getSecondaryKey() == null || !key.getSecondaryKey().hasRemaining() ? "-" : hex(key.getSecondaryKey());
        System.out.println("ENTRY " + hex(key.getPrimaryKey()) + " " + secondary + " " + hex(entry.getValue()) + " " + entry.getVersion());
    }

    static ByteBuffer number(int value, int size) {
        return ByteBuffer.wrap(Arrays.copyOfRange(ByteBuffer.allocate(4).putInt(value).array(), 4 - size, 4));
    }

    static ByteBuffer text(String text) {
        return ByteBuffer.wrap(text.getBytes());
    }

    static ByteBuffer hex(String digits) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(digits));
    }

    static String hex(ByteBuffer data) {
        byte[] copy = new byte[data.remaining()];
        data.duplicate().get(copy);
        return HexFormat.of().formatHex(copy);
    }

    static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }
}
