package com.example.shop.search;

import com.example.shop.model.Product;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.springframework.stereotype.Service;

/** Full-text search over names and descriptions: an inverted index in memory. */
@Service
public class SearchService {

    private final Map<String, Set<String>> articlesByWord = new TreeMap<>();

    public synchronized void index(Product product) {
        forget(product.articleNumber());
        for (String word : words(product.name() + " " + product.description())) {
            articlesByWord.computeIfAbsent(word, w -> new TreeSet<>()).add(product.articleNumber());
        }
    }

    public synchronized void forget(String articleNumber) {
        articlesByWord.values().forEach(articles -> articles.remove(articleNumber));
    }

    /** Article numbers of the products that have all the words. */
    public synchronized List<String> find(String query) {
        Set<String> found = null;
        for (String word : words(query)) {
            Set<String> having = articlesByWord.getOrDefault(word, Set.of());
            if (found == null) {
                found = new TreeSet<>(having);
            } else {
                found.retainAll(having);
            }
        }
        return found == null ? List.of() : List.copyOf(found);
    }

    private static List<String> words(String text) {
        return List.of(text.toLowerCase(Locale.ROOT).split("\\W+"));
    }
}
