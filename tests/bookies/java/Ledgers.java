import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** Ledgers by BookKeeper's own client, one command a line: what it does is answered by one line. */
public class Ledgers {
    private static final BookKeeper.DigestType DIGEST = BookKeeper.DigestType.CRC32C;
    private static final byte[] PASSWORD = new byte[0];

    /** Among the lines of the log on the same stream, answers begin with this. */
    private static void say(Object told) {
        System.out.println("> " + told);
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri(arguments[0]);
        configuration.setUseV2WireProtocol(Boolean.parseBoolean(arguments[1]));
        configuration.setDelayEnsembleChange(true);
        BookKeeper client = new BookKeeper(configuration);
        Scanner lines = new Scanner(System.in);
        LedgerHandle open = null;
        say("ready");
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            try {
                switch (words[0]) {
                    case "create" -> {
                        open = client.createLedger(3, 3, 2, DIGEST, PASSWORD);
                        say(open.getId());
                    }
                    case "add" -> say(open.addEntry(words[1].getBytes(StandardCharsets.UTF_8)));
                    case "read" -> {
                        LedgerHandle found = client.openLedger(Long.parseLong(words[1]), DIGEST, PASSWORD);
                        StringBuilder told = new StringBuilder();
                        long last = found.getLastAddConfirmed();
                        if (last >= 0) {
                            for (var entries = found.readEntries(0, last); entries.hasMoreElements(); ) {
                                LedgerEntry entry = entries.nextElement();
                                told.append(new String(entry.getEntry(), StandardCharsets.UTF_8)).append(' ');
                            }
                        }
                        say(last + " " + found.getLength() + " " + told.toString().trim());
                        found.close();
                    }
                    case "delete" -> {
                        client.deleteLedger(Long.parseLong(words[1]));
                        say("deleted");
                    }
                    default -> say("unknown");
                }
            } catch (Exception error) {
                say(error.getClass().getSimpleName());
            }
        }
        System.exit(0);
    }
}
